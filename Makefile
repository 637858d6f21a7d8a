# make demo   merges the sample databases and shows what came out
# make test   lints, checks types and layers, and runs the tests
# Both make the virtual environment first, and again only when pyproject.toml or requirements.lock change.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
OUT ?= vber-demo
PYTEST_ARGS ?=
BENCH_ARGS ?=
MINUTES ?= 5

BIN := $(VENV)/bin
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test lint format docs bench sample screenshots fuzz check lock clean

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
export PIP_NO_INPUT := 1

# pip with the exact versions of requirements.lock where they were made for this Python, else with the newest ones.
# What to install comes in WHAT.
define pip_install
	@want=$$(sed -n 's/^# python //p' requirements.lock); \
	have=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	if [ "$$want" = "$$have" ]; then set -- -c requirements.lock; else set --; \
	  echo "requirements.lock is for Python $$want, this is $$have: taking the newest versions"; fi; \
	echo "installing $(WHAT) into $(VENV) ..."; \
	$(BIN)/python -m pip install --quiet --progress-bar off "$$@" -e '$(WHAT)'
endef

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile
	@echo "more: install lint format docs bench sample screenshots fuzz check lock clean"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "vber needs Python 3.10 or newer; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "this Python has no venv module; install it (Debian, Ubuntu: the package python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# The order-only environment must not date the stamps: its files change with every install.
$(VENV)/.installed: WHAT := .
$(VENV)/.installed: pyproject.toml requirements.lock | $(BIN)/python
	$(pip_install)
	@touch $@

$(VENV)/.installed-dev: WHAT := .[test,lint]
$(VENV)/.installed-dev: pyproject.toml requirements.lock | $(BIN)/python
	$(pip_install)
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: WHAT := .[bench]
$(VENV)/.installed-bench: pyproject.toml requirements.lock | $(BIN)/python
	$(pip_install)
	@touch $@ $(VENV)/.installed

install: $(VENV)/.installed

demo: $(VENV)/.installed
	$(BIN)/vber merge --config sample_data/vber.toml --out $(OUT) --force
	$(BIN)/vber evaluate $(OUT) sample_data/truth.csv
	@$(BIN)/python sample_data/show.py $(OUT)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --no-cache --fix .
	$(BIN)/ruff format --no-cache .

# The tests of a file share its long runs, so they stay together in one process.
test: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# The fast part of `make test`, for every save.
check: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not slow" $(PYTEST_ARGS)

docs: $(VENV)/.installed-dev
	$(BIN)/python -m vber_cli.cli.reference docs/reference.md
	$(BIN)/python -m vber_cli.cli.manual docs/man
	$(BIN)/python -m tests.test_pages

sample: $(VENV)/.installed
	$(BIN)/python sample_data/make_sample.py sample_data

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

# Pictures of the sample's report, wide and narrow, light and dark, and printed, in $(OUT)-screenshots; needs Chromium.
screenshots: $(VENV)/.installed
	$(BIN)/vber merge --config sample_data/vber.toml --out $(OUT) --force
	$(BIN)/vber report $(OUT) --truth sample_data/truth.csv
	$(BIN)/python -m tests.report.screenshots $(OUT)/report.html $(OUT)-screenshots

# Looks for inputs that make a reader fall over, for MINUTES; what it finds is kept in tests/fuzz/corpus, where the tests
# go through it. Guided by coverage where atheris has a wheel for this Python and system, else drawn by hypothesis.
fuzz: $(VENV)/.installed-dev
	@$(BIN)/python -m pip install --quiet --progress-bar off --only-binary :all: atheris || true
	$(BIN)/python -m tests.fuzz.run $(MINUTES)

# New exact versions, for the Python in use.
lock:
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --progress-bar off -e '.[test,lint,bench]'
	$(BIN)/python -c 'import sys; print("# python %d.%d" % sys.version_info[:2])' > requirements.lock
	$(BIN)/python -m pip freeze --exclude-editable >> requirements.lock
	@touch $(VENV)/.installed $(VENV)/.installed-dev $(VENV)/.installed-bench

clean:
	rm -rf $(VENV) $(OUT) $(OUT)-screenshots build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache benchmarks/data
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
