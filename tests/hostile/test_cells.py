"""Nothing in a cell is ever carried out: no formula, no markup, no terminal sequence."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.hostile.command import printable, run
from tests.report.html import read_page

FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-2+3+cmd", "@SUM(A1)", "=1+1", "\t=1", '=HYPERLINK("http://x","y")')
EVIL = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=alert(1)>",
    "</style><svg onload=alert(1)>",
    "{{7*7}}",
    "{% raw %}",
    "\x1b[2J\x1b]0;owned\x07",
    "\x1b[31mred",
    "\u202eevil",
    "&lt;b&gt;",
    "' onmouseover='alert(1)",
    "]]>",
    "-->",
    "\u009b31m",
    "[bold red]x[/]",
    ":smile:",
    "%s%n",
    *FORMULAS,
)
HUGE = "long " * (2 << 20)


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result of records full of them, in names of columns and databases, in ids and in values, and one of 10 MB."""
    folder = tmp_path_factory.mktemp("evil")
    header = ["id", "<script>alert(1)</script>", "=1+1", "\x1b[31mname"]
    for database, other in (("<b>one", "a"), ("@two", "b")):
        with (folder / f"{database[-3:]}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow(header)
            for i, value in enumerate(EVIL):
                writer.writerow(
                    [
                        f"={other}{i}",
                        value,
                        EVIL[(i + 1) % len(EVIL)] + ("x" if i % 5 and other == "b" else ""),
                        value[:9],
                    ]
                )
            if other == "a":
                writer.writerow([f"={other}99", HUGE, "x", "y"])
    ended = run(
        "merge",
        f"<b>one={folder / 'one.csv'}",
        f"@two={folder / 'two.csv'}",
        "-o",
        folder / "out",
        "--link-min",
        "0",
    )
    assert ended.code == 0, ended.err
    assert printable(ended.err), repr(ended.err)
    return folder / "out"


def test_the_report_shows_values_as_text_and_stays_small(merged: Path) -> None:
    ended = run("report", merged)
    assert ended.code == 0, ended.err
    page = (merged / "report.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 5_000_000
    assert "<script" not in page.lower()
    assert "<img" not in page.lower()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page, "the names are there, as text"
    assert read_page(page)
    assert "script-src" in page or "default-src 'none'" in page


@pytest.mark.parametrize("width", ["60", "120"])
def test_terminals_are_not_steered(merged: Path, width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    small = [str(merged.parent / "two.csv")]
    for words in (
        *(["explain", merged, f"=a{i}", f"=b{i % 90}"] for i in (0, 5, 6, 99)),
        ["explain", merged, "=a5"],
        ["explain", merged, "=a5", "--json"],
        ["explain", merged, "\x1b[2J"],
        ["profile", *small],
        ["profile", *small, "--json"],
        ["check", merged],
        ["compare", merged, merged],
        ["merge", "-v", *small, "--type", "\x1b[2J=text"],
        ["merge", *small, "--fields", "<script>"],
    ):
        ended = run(*words)
        assert ended.code in (0, 2, 3), ended.err
        assert printable(ended.out), words
        assert printable(ended.err), words
        assert len(ended.out) < 2_000_000 or "--json" in words, words


def test_review_defuses_formulas_for_spreadsheets(merged: Path) -> None:
    out = merged.parent / "pairs.csv"
    assert run("review", merged, "--out", out, "-n", "200", "-q").code == 0
    rows = list(csv.reader(io.StringIO(out.read_text(encoding="utf-8-sig"), newline="")))
    assert len(rows) > 1
    for row in rows:
        for cell in row:
            assert not cell.startswith(("=", "+", "-", "@", "\t")), cell[:40]


def test_a_review_comes_back_though_its_formulas_were_defused(merged: Path) -> None:
    """An apostrophe that review has put before an id does not keep the id from being found."""
    out = merged.parent / "decided.csv"
    assert run("review", merged, "--out", out, "-n", "5", "-q").code == 0
    rows = list(csv.reader(io.StringIO(out.read_text(encoding="utf-8-sig"), newline="")))
    for row in rows[1:]:
        row[-1] = "yes"
    with out.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows[:2])
    inputs = [f"<b>one={merged.parent / 'one.csv'}", f"@two={merged.parent / 'two.csv'}"]
    ended = run("merge", "-q", *inputs, "--fields", "=1+1", "--must-link", out, "-o", merged.parent / "again")
    assert ended.code == 0, ended.err


def test_csv_for_programs_is_exact(merged: Path) -> None:
    """--stdout is read by programs: what stands in a cell there is what stood in the data, formulas included."""
    ended = run("merge", "-q", merged.parent / "two.csv", "--stdout", "individuals")
    assert ended.code == 0, ended.err
    cells = {cell for row in csv.reader(io.StringIO(ended.out, newline="")) for cell in row}
    assert "=1+1" in cells
    assert "\x1b[2J\x1b]0;owned\x07" in cells
