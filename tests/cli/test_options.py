"""Every option arrives: from the command line and from a file in the `MergeOptions` that reaches the pipeline."""

import sys
import types
from pathlib import Path

import pytest

from tests.cli.fake_pipeline import Outcome
from tests.test_config import OTHER
from vber_cli.cli.app import main
from vber_cli.config import OPTIONS, MergeOptions, parse_toml, to_toml

# What to type for the values of OTHER.
TYPED = {
    "files": ["a.csv", "b=x y.parquet"],
    "K": ["--K", "7"],
    "out": ["-o", "elsewhere"],
    "id": ["--id", "db:key"],
    "fields": ["--fields", 'name,"a,b"'],
    "exclude": ["--exclude", "note"],
    "map": ["--map", "police:sur name=name"],
    "type": ["--type", "*=category"],
    "null": ["--null", "-9"],
    "delimiter": ["--delimiter", "tab"],
    "encoding": ["--encoding=latin-1"],
    "prior": ["--prior", "uniform"],
    "concentration": ["--concentration", "0.05"],
    "no_duplicates": ["--no-duplicates", "clinic"],
    "link": ["--link"],
    "dedupe": ["--dedupe"],
    "must_link": ["--must-link", "yes.csv"],
    "cannot_link": ["--cannot-link", "no.csv"],
    "decisions": ["--decisions", "pairs.csv"],
    "independent": ["--independent"],
    "max_sweeps": ["--max-sweeps", "3"],
    "tol": ["--tol", "1e-4"],
    "start": ["--start", "random"],
    "start_from": ["--start-from", "before"],
    "moves": ["--no-moves"],
    "loss": ["--loss", "fp=2,fn=1"],
    "link_min": ["--link-min", ".5"],
    "phi_min": ["--phi-min", "0"],
    "records": ["--no-records"],
    "seed": ["--seed", "11"],
    "threads": ["--threads", "2"],
    "max_memory": ["--max-memory", "4G"],
    "max_time": ["--max-time", "1h30m"],
    "resume": ["--resume"],
    "force": ["--force"],
    "stdout": ["--stdout", "links"],
    "quiet": ["-q"],
    "verbose": ["-v"],
    "log_json": ["--log-json"],
    "debug": ["--debug"],
}


@pytest.fixture
def merged(monkeypatch):
    """Options of the runs that reached the pipeline."""
    seen = []

    def run_merge(options, progress, *, stdin, checkpoints):  # noqa: ARG001
        seen.append(options)
        return Outcome(Path(options.out), {}, True)

    module = types.ModuleType("vber_cli.pipeline")
    module.run_merge = run_merge
    monkeypatch.setitem(sys.modules, "vber_cli.pipeline", module)
    monkeypatch.setattr("vber_cli.cli.merge.print_table", lambda _path: None)
    return seen


def test_every_option_is_typed_here():
    assert list(TYPED) == list(OPTIONS)


@pytest.mark.parametrize("name", TYPED)
def test_every_option_arrives_from_the_command_line(merged, name):
    files = [] if name == "files" else ["x.csv"]
    assert main(["merge", *files, *TYPED[name], *([] if name == "out" else ["--out", "y"])]) == 0
    expected = {"files": ("x.csv",), "out": "y", name: OTHER[name]}
    assert merged == [MergeOptions(**expected)]


@pytest.mark.parametrize("name", TYPED)
def test_every_option_arrives_from_a_file_and_the_command_line_wins(merged, name, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(to_toml(MergeOptions(**{"files": ("x.csv",), "out": "y", name: OTHER[name]})), encoding="utf-8")
    assert main(["merge", "--config", str(path)]) == 0
    assert merged[0] == MergeOptions(**{"files": ("x.csv",), "out": "y", name: OTHER[name]})
    path.write_text('[merge]\nfiles = ["z.csv"]\nout = "z"\n' + CONTRARY.get(name, ""), encoding="utf-8")
    files = [] if name == "files" else ["x.csv"]
    assert main(["merge", "--config", str(path), *files, *TYPED[name], *([] if name == "out" else ["-o", "y"])]) == 0
    assert merged[1] == MergeOptions(**{"files": ("x.csv",), "out": "y", name: OTHER[name]})


CONTRARY = {
    "K": "K = 9",
    "id": 'id = ["q", "r"]',
    "fields": 'fields = ["q"]',
    "exclude": 'exclude = ["q"]',
    "map": 'map = ["q:r=s"]',
    "type": 'type = ["q=category"]',
    "null": 'null = ["q"]',
    "delimiter": 'delimiter = ";"',
    "encoding": 'encoding = "utf-8"',
    "prior": 'prior = "empirical"',
    "concentration": "concentration = 0.5",
    "no_duplicates": 'no-duplicates = ["q"]',
    "link": "link = false",
    "dedupe": "dedupe = false",
    "must_link": 'must-link = ["q"]',
    "cannot_link": 'cannot-link = ["q"]',
    "decisions": 'decisions = ["q"]',
    "independent": "independent = false",
    "max_sweeps": "max-sweeps = 9",
    "tol": "tol = 1e-3",
    "start": 'start = "records"',
    "start_from": 'start-from = "q"',
    "moves": "moves = true",
    "loss": 'loss = "fp=9"',
    "link_min": "link-min = 0.9",
    "phi_min": "phi-min = 0.9",
    "records": "records = true",
    "seed": "seed = 9",
    "threads": "threads = 9",
    "max_memory": 'max-memory = "9G"',
    "force": "force = false",
    "stdout": 'stdout = "individuals"',
    "quiet": "verbose = true",
    "verbose": "quiet = true",
    "log_json": "quiet = true",
}


def test_words_and_negations_return_to_the_default(merged, tmp_path):
    path = tmp_path / "run.toml"
    given = OTHER | dict.fromkeys(("dedupe", "quiet", "verbose", "log_json"), False) | {"start_from": None}
    path.write_text(to_toml(MergeOptions(**given)))
    back = ["--K", "auto", "--concentration", "learned", "--threads", "auto", "--max-memory", "none", "--stdout",
            "none", "--delimiter", "auto", "--encoding", "auto", "--moves", "--records", "--no-force"]  # fmt: skip
    assert main(["merge", "--config", str(path), *back]) == 0
    names = ("K", "concentration", "threads", "max_memory", "stdout", "delimiter", "encoding", "moves", "force")
    for name in names:
        assert getattr(merged[0], name) == getattr(MergeOptions(), name)
    assert merged[0].seed == OTHER["seed"]


def test_lists_add_up_over_repeats(merged):
    assert main(["merge", "a", "--fields", "x,y", "b", "--fields", "z", "--null", ",", "--null", "--"]) == 0
    assert (merged[0].files, merged[0].fields, merged[0].null) == (("a", "b"), ("x", "y", "z"), (",", "--"))


def test_stdout_without_out_goes_to_a_directory_that_vanishes(merged):
    assert main(["merge", "a", "--stdout", "links"]) == 0
    assert merged[0].out != MergeOptions().out
    assert not Path(merged[0].out).parent.exists()


def test_config_show_prints_what_loads_back(capsys, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[merge]\nseed = 5\nK = 4\n")
    assert main(["config", "show", "a.csv", "--config", str(path), "--K", "7", "--null", 'é"\\\n']) == 0
    out, err = capsys.readouterr()
    expected = MergeOptions(files=("a.csv",), seed=5, K=7, null=('é"\\\n',))
    assert (MergeOptions.layered(parse_toml(out, "shown"), {}), err) == (expected, "")
    path.write_text(out, encoding="utf-8")
    assert main(["config", "show", "--config", str(path)]) == 0
    assert capsys.readouterr().out == out


def test_config_check(capsys, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[merge]\nK = 4\n")
    assert main(["config", "check", str(path)]) == 0
    assert "is fine: it sets 1 option" in capsys.readouterr().out
    path.write_text("[merge]\nquiet = true\nverbose = true\n")
    assert main(["config", "check", str(path)]) == 2
    path.write_text("[merge]\nmax_sweep = 4\n")
    assert main(["config", "check", str(path)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "Did you mean 'max-sweeps'?"
