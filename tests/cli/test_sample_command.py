"""`vber sample` as a user runs it: tables, resuming, wrong input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vber_cli.cli.app import main
from vber_cli.config import SAMPLE_OPTIONS, SampleOptions
from vber_cli.errors import UsageError

SHORT = ["--iterations", "60", "--burn-in", "20", "--thin", "4", "--chains", "2", "--seed", "3"]


def write_databases(folder, rng, n=80):
    """Two small databases of the same people, with errors and gaps, and the truth."""
    person = rng.permutation(np.repeat(np.arange(n * 3 // 4), 2))[:n]
    fields = {name: rng.integers(v, size=n) for name, v in {"name": 60, "town": 9, "year": 40, "day": 31}.items()}
    rows = []
    for r, p in enumerate(person):
        row = {f: str(values[p]) if rng.random() > 0.06 else str(rng.integers(40)) for f, values in fields.items()}
        rows.append({"id": f"r{r}"} | {f: "" if rng.random() < 0.05 else v for f, v in row.items()})
    table = pd.DataFrame(rows)
    table.iloc[: n // 2].to_csv(folder / "a.csv", index=False)
    table.iloc[n // 2 :].to_csv(folder / "b.csv", index=False)
    pd.DataFrame({"record_id": table["id"], "entity": person}).to_csv(folder / "truth.csv", index=False)


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    write_databases(tmp_path, rng)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder, capsys):  # noqa: ARG001 - the command runs in the folder
    def of(*arguments):
        code = main(["sample", *arguments])
        return code, *capsys.readouterr()

    return of


def table(folder, out, name):
    return pd.read_parquet(folder / out / f"{name}.parquet")


def assert_same_draws(folder, one, other):
    for name in ("draws", "iterations", "assignments", "links"):
        pd.testing.assert_frame_equal(table(folder, one, name), table(folder, other, name))


def test_the_tables_tell_one_story(run, folder):
    assert run("a.csv", "b.csv", *SHORT, "-o", "out", "-q") == (0, "", "")
    draws, iterations = table(folder, "out", "draws"), table(folder, "out", "iterations")
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert len(iterations) == 2 * 60
    assert (
        draws.groupby("chain", observed=True)["iteration"].unique().map(list).tolist() == [list(range(24, 61, 4))] * 2
    )
    assert len(draws) == 2 * 10 * 80
    # n of a kept draw is n of its iteration, and an individual is called after its first record
    n = draws.groupby(["chain", "iteration"])["individual"].nunique()
    assert (iterations.set_index(["chain", "iteration"])["n"].loc[n.index] == n).all()
    draws["place"] = draws.groupby(["chain", "iteration"]).cumcount()
    first = draws.groupby(["chain", "iteration", "individual"])["place"].min().reset_index()
    assert (first["place"] == first["individual"]).all()
    after = iterations[iterations["iteration"] > 20]
    assert summary["n"]["mean"] == pytest.approx(after["n"].mean())
    assert [summary["n"]["low"], summary["n"]["high"]] == pytest.approx(list(np.quantile(after["n"], [0.05, 0.95])))
    assert summary["K"]["mean"] == 80
    assert summary["fields"][1]["beta"]["mean"] == pytest.approx(after["beta_town"].mean())
    # links are shares of draws
    drawn = draws.pivot_table(index=["chain", "iteration"], columns="place", values="individual").to_numpy()
    links = table(folder, "out", "links").astype({"database_a": str, "database_b": str})
    offset = {"a": 0, "b": 40}
    i, j = (links[f"database_{s}"].map(offset) + links[f"row_{s}"] for s in "ab")
    share = (drawn[:, i] == drawn[:, j]).mean(axis=0)
    assert links["probability"].to_numpy() == pytest.approx(share)
    together = (drawn[:, :, None] == drawn[:, None, :]).mean(axis=0)[np.triu_indices(80, 1)]
    assert (together >= 0.01).sum() == len(links) == summary["n_links"]
    assignments = table(folder, "out", "assignments")
    assert assignments["individual"].nunique() == summary["n_individuals"]
    assert assignments["set_probability"].between(0.05, 1).all()


def test_evaluate_reads_it(run, capsys):
    assert run("a.csv", "b.csv", "--iterations", "400", "-o", "out", "-q")[0] == 0
    assert main(["evaluate", "out", "truth.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["records"]["covered"] == 80
    assert found["pairwise"]["f1"] > 0.6
    assert found["calibration"] is not None
    assert found["individuals"]["interval"] is not None


def test_neither_threads_nor_the_order_of_the_files_change_the_draws(run, folder):
    for out, threads in (("one", "1"), ("two", "2")):
        assert run("a.csv", "b.csv", *SHORT, "-o", out, "--threads", threads, "-q")[0] == 0
    assert_same_draws(folder, "one", "two")
    assert run("b.csv", "a.csv", *SHORT, "-o", "turned", "-q")[0] == 0
    pd.testing.assert_frame_equal(table(folder, "one", "iterations"), table(folder, "turned", "iterations"))


def _default_signals():
    """Whoever runs the tests may have had signals ignored, and that is inherited."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def interrupt(vber, number, out, *arguments):
    """Run the installed command until it has written a checkpoint, and send it a signal."""
    started = [vber, "sample", *arguments, "-o", out, "--checkpoint-every", "0", "-q"]
    with subprocess.Popen(started, stderr=subprocess.DEVNULL, preexec_fn=_default_signals) as process:  # noqa: PLW1509
        while not Path(f"{out}.checkpoint.npz").exists():
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(number)
    assert process.returncode != 0
    assert not Path(out).exists()


def test_a_killed_run_goes_on_to_the_same_draws(run, folder, vber):
    long = ["a.csv", "b.csv", "--iterations", "4000", "--thin", "100", "--chains", "3", "-q"]
    assert run(*long, "-o", "whole") == (0, "", "")
    for out, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGTERM)):
        interrupt(vber, number, out, *long)
        code, _, errors = run(*long, "-o", out)
        assert (code, errors.count("\n")) == (4, 2)
        assert "--resume" in errors
        assert run(*long, "--resume", "-o", out) == (0, "", "")
        assert not Path(f"{out}.checkpoint.npz").exists()
        assert_same_draws(folder, out, "whole")


def test_a_checkpoint_of_another_run_is_refused(run, folder, vber):
    interrupt(vber, signal.SIGKILL, "vber-sample", "a.csv", "--iterations", "1000000", "--chains", "1")
    base = ["a.csv", "--chains", "1", "--resume", "-q"]
    code, _, errors = run(*base, "--iterations", "1000000", "--seed", "5")
    assert (code, errors.splitlines()[0]) == (
        2, f"error: {folder}/vber-sample.checkpoint.npz was made with another --seed: 0, now 5.",
    )  # fmt: skip
    os.replace(folder / "b.csv", folder / "a.csv")
    code, _, errors = run(*base, "--iterations", "1000000")
    assert (code, "other inputs" in errors) == (2, True)
    (folder / "vber-sample.checkpoint.npz").write_bytes(b"broken")
    assert run(*base)[0] == 3
    assert run("a.csv", *SHORT, "--force", "-q") == (0, "", "")
    assert not (folder / "vber-sample.checkpoint.npz").exists()


def test_resume_without_a_checkpoint_begins(run):
    code, _, errors = run("a.csv", *SHORT, "--resume")
    assert code == 0
    assert "note: there is no checkpoint vber-sample.checkpoint.npz: beginning" in errors


def test_few_iterations_are_warned_of(run):
    code, _, errors = run("a.csv", "--iterations", "6", "--chains", "1")
    assert (code, "warning: too few iterations" in errors) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "first"),
    [
        ([], 2, "no database is given"),
        (["a.csv", "--beta-prior", "1"], 2, "--beta-prior '1' is not two positive numbers"),
        (["a.csv", "--beta-prior", "0,3"], 2, "--beta-prior '0,3' is not two positive numbers"),
        (["a.csv", "--theta-prior", "0"], 2, "--theta-prior must be greater than 0"),
        (["a.csv", "--iterations", "10", "--burn-in", "10"], 2, "10 iterations, of which 10 are burn-in"),
        (["a.csv", "--iterations", "10", "--thin", "7"], 2, "10 iterations, of which 5 are burn-in and every 7th"),
        (["a.csv", "--K", "0"], 2, "--K must be at least 1"),
        (["a.csv", "--chain"], 2, "vber sample has no option --chain"),
        (["a.csv", "--chains"], 2, "--chains needs a value"),
        (["a.csv", "-q", "-v"], 2, "--quiet and --verbose contradict each other"),
        (["nowhere.csv"], 3, "nowhere.csv"),
        (["a.csv", "--fields", "colour"], 2, ""),
        (["a.csv", "--max-memory", "1K", "-o", "x"], 5, ""),
    ],
)
def test_wrong_input_is_two_lines_and_a_code(run, folder, arguments, code, first):
    found, out, err = run(*arguments)
    lines = [line for line in err.splitlines() if not line.startswith("note:")]
    assert (found, out, len(lines)) == (code, "", 2)
    assert lines[0].startswith(f"error: {first}")
    assert sorted(p.name for p in folder.iterdir()) == ["a.csv", "b.csv", "truth.csv"]


def test_an_existing_result_is_kept(run, folder):
    assert run("a.csv", *SHORT, "-q")[0] == 0
    assert run("a.csv", *SHORT, "-q")[0] == 4
    assert run("b.csv", *SHORT, "-q", "--force")[0] == 0
    assert set(table(folder, "vber-sample", "assignments")["database"]) == {"b"}


TYPED = {
    "K": (["--K", "9"], 9),
    "beta_prior": (["--beta-prior", "2,5"], "2,5"),
    "theta_prior": (["--theta-prior", ".5"], 0.5),
    "iterations": (["--iterations", "9"], 9),
    "burn_in": (["--burn-in", "9"], 9),
    "thin": (["--thin", "9"], 9),
    "chains": (["--chains", "9"], 9),
    "moves_per_sweep": (["--moves-per-sweep", "9"], 9),
    "out": (["-o", "x"], "x"),
    "link_min": (["--link-min", ".5"], 0.5),
    "force": (["--force"], True),
    "resume": (["--resume"], True),
    "checkpoint_every": (["--checkpoint-every", "0"], 0.0),
    "seed": (["--seed", "9"], 9),
    "threads": (["--threads", "9"], 9),
    "max_memory": (["--max-memory", "1G"], "1G"),
    "id": (["--id", "x"], ("x",)),
    "fields": (["--fields", "x,y"], ("x", "y")),
    "exclude": (["--exclude", "x"], ("x",)),
    "map": (["--map", "d:x=y"], ("d:x=y",)),
    "null": (["--null", "x"], ("x",)),
    "delimiter": (["--delimiter", "tab"], "\t"),
    "encoding": (["--encoding", "latin-1"], "latin-1"),
    "quiet": (["-q"], True),
    "verbose": (["-v"], True),
    "log_json": (["--log-json"], True),
    "debug": (["--debug"], True),
}


def test_every_option_is_typed_here():
    assert {*TYPED, "files"} == set(SAMPLE_OPTIONS)


@pytest.mark.parametrize("name", TYPED)
def test_every_option_arrives(monkeypatch, name):
    seen = []

    def run_sample(options, progress, *, stdin):  # noqa: ARG001
        seen.append(options)
        raise UsageError("enough", "stop")

    monkeypatch.setattr("vber_cli.sampling.run_sample", run_sample)
    words, value = TYPED[name]
    assert main(["sample", "a.csv", *words]) == 2
    assert seen == [SampleOptions(files=("a.csv",), **{name: value})]


def test_what_follows_from_the_number_of_iterations():
    options = SampleOptions(iterations=1000)
    assert (options.n_burn_in, options.thin_every, options.n_draws) == (500, 5, 100)
    options = SampleOptions(iterations=70, burn_in=0, thin=8)
    assert (options.n_burn_in, options.thin_every, options.n_draws) == (0, 8, 8)
    assert SampleOptions(iterations=1).n_draws == 1


def test_the_digest_leaves_out_what_changes_nothing():
    base = SampleOptions().digest()
    for name in ("out", "force", "resume", "checkpoint_every", "threads", "max_memory", "quiet", "debug"):
        assert SampleOptions(**{name: TYPED[name][1]}).digest() == base
    for name in ("K", "beta_prior", "iterations", "seed", "chains", "moves_per_sweep", "thin", "burn_in"):
        assert SampleOptions(**{name: TYPED[name][1]}).digest() != base
