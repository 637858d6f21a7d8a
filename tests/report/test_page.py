"""The page of `vber report`: well formed, accessible, harmless, small, and right in its numbers."""

import itertools
import json
import re

import pytest

from tests.report.html import read_page
from tests.report.made import TRUTH, write_result
from vber_cli.errors import InputError
from vber_cli.report.page import make_report
from vber_cli.report.wording import printable

VALUES = [["Anna", "York"], ["Bob", None], ["Anna", "Hull"], ["Bobb", "Leeds"]]
EVIL = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "=cmd()|' /C calc'!A0",
    "\x1b[31mred\x1b[0m\x00\x07",
    "</style><style>*{display:none}</style>",
    "{{ 7*7 }}{% raw %}",
    "\u202eright to left",
    "x" * 1_000_000,
    "'; javascript:alert(1)",
    "--><!--",
]


@pytest.fixture
def truth(tmp_path):
    path = tmp_path / "truth.csv"
    path.write_text(TRUTH)
    return str(path)


@pytest.fixture
def page(tmp_path, truth):
    html, _ = make_report(write_result(tmp_path / "out", values=VALUES), truth)
    return html


def check_structure(html):
    """Everything that must hold of any page; returns its tree."""
    root = read_page(html)
    assert html.startswith("<!DOCTYPE html>")
    assert root.all("html")[0].attributes["lang"] == "en"
    assert not root.all("script", "iframe", "object", "embed", "link", "base", "form", "img", "image", "use")
    for element in root.all():
        for name, text in element.attributes.items():
            assert not name.startswith("on")
            if name in ("href", "src", "xlink:href", "srcset", "action", "data"):
                assert re.fullmatch(r"#[\w-]+", text), f"{element.name} {name}={text}"
    style = root.all("style")
    assert len(style) == 1
    assert not re.search(r"url\(|@import|expression", style[0].text)
    policy = next(m for m in root.all("meta") if m.attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy.attributes["content"].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    ids = [e.attributes["id"] for e in root.all() if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    for element in root.all():
        if element.name == "a":
            assert element.attributes["href"][1:] in ids
        for wanted in (element.attributes.get("aria-labelledby") or "").split():
            assert wanted in ids
    levels = [int(h.name[1]) for h in root.all("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    for svg in root.all("svg"):
        if svg.attributes.get("aria-hidden") == "true":
            continue
        assert svg.attributes["role"] == "img"
        assert [child.name for child in svg.children[:2]] == ["title", "desc"]
        assert all(child.text.strip() for child in svg.children[:2])
        assert not re.search(r"nan|inf|None", " ".join(str(m.attributes) for m in svg.all("rect", "line", "path")))
    for figure in root.all("figure"):
        assert figure.all("svg")
        assert len(figure.all("figcaption")[0].all("p")) >= 2
        assert figure.all("details")[0].all("table")
    for table in root.all("table"):
        assert all(cell.attributes.get("scope") in ("col", "row") for cell in table.all("th"))
        widths = {len(row.children) for row in table.all("tr")}
        assert len(widths) == 1
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", html)
    return root


def figures(root):
    return {figure.all("h3")[0].text: figure for figure in root.all("figure")}


def rows(table):
    return [[cell.text.strip() for cell in row.children] for row in table.all("tbody")[0].all("tr")]


def test_structure(page):
    root = check_structure(page)
    assert len(figures(root)) == 8
    assert [h.text for h in root.all("h2")] == [
        "Overview", "Databases and their overlap", "Fields and their noise", "Dependence and relations",
        "Links and their probabilities", "Pairs to review", "Hardest individuals", "The run",
    ]  # fmt: skip


def test_the_numbers(page):
    root = check_structure(page)
    assert "4 records in 2 databases describe about 3 individuals (with 90% probability 2 to 3)." in root.text
    tables = {name: rows(figure.all("table")[0]) for name, figure in figures(root).items()}
    assert tables["How many individuals there are"][1:3] == [
        ["Individuals recorded (n)", "3", "2", "3"], ["Population (K)", "5", "3", "9"],
    ]  # fmt: skip
    assert tables["Records per individual"] == [["1", "2"], ["2", "1"]]
    assert tables["Which databases share individuals"] == [["clinic", "1"], ["clinic and police", "1"], ["police", "1"]]
    # weights 0.9 and 0.4: the name is identical in 0.9 of 1.3, the town different in all, missing in 0.4 of 1.3
    assert tables["Noise of each field, by level"] == [
        ["name", "69.2%", "30.8%", "0.0%", "0.0%", "0.0%"], ["town", "0.0%", "0.0%", "0.0%", "100.0%", "30.8%"],
    ]  # fmt: skip
    assert tables["Which field depends on which"] == [["name", "–", "–"], ["town", "name", "1.50"]]
    assert [row[1] for row in tables["How sure the links are"]] == ["0", "0", "0", "0", "1", "0", "0", "0", "0", "1"]
    assert [row[1] for row in tables["Do the probabilities come true?"]] == ["1", "1"]
    assert [row[:3] for row in tables["Course of the bound"]] == [
        ["1", "merge", "\N{MINUS SIGN}12.000"], ["2", "split", "\N{MINUS SIGN}9.500"],
        ["3", "sweep", "\N{MINUS SIGN}9.000"],
    ]  # fmt: skip


def test_pairs_come_by_expected_loss_with_their_values(page):
    review = next(s for s in check_structure(page).all("section") if s.attributes["id"] == "review")
    cards = review.all("article")
    assert [card.all("h3")[0].text for card in cards] == ["clinic c1 and police p1", "clinic c0 and police p0"]
    assert "kept apart" in cards[0].text
    assert "put together" in cards[1].text
    assert re.search(r"expected loss 0\.400", cards[0].text)
    assert re.search(r"expected loss 0\.100", cards[1].text)
    assert rows(cards[0].all("table")[0]) == [
        ["name", "Bob", "Bobb", "one slip apart"], ["town", "missing", "Leeds", "missing"],
    ]  # fmt: skip


def test_without_values_ids_and_levels_remain(tmp_path):
    html, _ = make_report(write_result(tmp_path / "out"))
    review = next(s for s in check_structure(html).all("section") if s.attributes["id"] == "review")
    assert rows(review.all("table")[0]) == [["name", "one slip apart"], ["town", "missing"]]
    assert "does not hold the records' values" in review.text


def test_hardest_individuals_come_first(page):
    hardest = next(s for s in check_structure(page).all("section") if s.attributes["id"] == "hardest")
    assert [a.all("h3")[0].text for a in hardest.all("article")] == ["Individual 8", "Individual 7"]
    assert rows(hardest.all("table")[0]) == [
        ["c1", "clinic", "0.600", "an individual of its own, 0.400", "Bob", "missing"]
    ]


def test_the_loss_of_the_run_weighs_the_pairs(tmp_path):
    changes = {"options": {"loss": "fp=5,fn=1"}}
    review = read_page(make_report(write_result(tmp_path / "out", changes=changes))[0])
    cards = next(s for s in review.all("section") if s.attributes["id"] == "review").all("article")
    assert "expected loss 0.500" in cards[0].text  # five times 0.1, before 0.4


def test_calibration_and_scores_only_with_truth(tmp_path):
    root = read_page(make_report(write_result(tmp_path / "out"))[0])
    assert "Do the probabilities come true?" not in figures(root)
    assert "Agreement with the truth" not in root.text


@pytest.mark.parametrize("shift", range(len(EVIL)))
def test_hostile_data_are_harmless(tmp_path, shift):
    def evil(i):
        return EVIL[(shift + i) % len(EVIL)]

    names, fields = (f"1{evil(0)}", f"2{evil(1)}"), (f"3{evil(2)}", f"4{evil(3)}")
    changes = {"warnings": [evil(4)], "options": {"map": [evil(5)], "loss": "fp=1,fn=1"}, "config_digest": evil(6)}
    changes["noise"] = {"classes": [{"share": 1.0, "mismatch": {}}]}
    made = write_result(
        tmp_path / "out", names=names, fields=fields, ids=[evil(i) + str(i) for i in range(4)],
        values=[[evil(i), "x" * 1_000_000] for i in range(4)], changes=changes,
    )  # fmt: skip
    html, _ = make_report(made)
    root = check_structure(html)
    assert len(html.encode()) < 200_000
    assert "xxxxxxxx… (1,000,000 characters)" in root.text
    cells = {cell.text for cell in root.all("td")}
    for i in range(4):  # the values are there to be read, as they are or with signs for what cannot be shown
        assert any(printable(evil(i))[:100] in cell for cell in cells)


def test_half_surrogates_are_replaced(tmp_path):
    html, _ = make_report(write_result(tmp_path / "out", changes={"warnings": ["file \udcff.csv"]}))
    assert "file \N{REPLACEMENT CHARACTER}.csv" in html
    html.encode()


def test_a_large_result_stays_small(tmp_path):
    n_fields, n_names, n_records = 300, 40, 400
    fields = tuple(f"field {f} & more" for f in range(n_fields))
    names = tuple(f"a database with a long name, number {d}" for d in range(n_names))
    places = [(i % n_names, i // n_names) for i in range(n_records)]
    assigned = [(d, row, i // 20, 0.5) for i, (d, row) in enumerate(places)]
    links = [(*places[i], *places[i + 1], 0.5, (i % 4,) * n_fields) for i in range(0, n_records - 1, 2)]
    made = write_result(
        tmp_path / "out", names=names, fields=fields, assigned=assigned, links=links,
        values=[["<" * 500] * n_fields] * n_records,
    )  # fmt: skip
    html, _ = make_report(made)
    root = check_structure(html)
    assert len(html.encode()) < 5_000_000
    assert "100 more rows are not shown" in root.text
    assert "Shown are the first 20 of 300 fields" in root.text


def test_a_run_of_the_literal_updates(tmp_path):
    changes = {
        "expected": {"precision": None, "recall": None, "f1": None}, "noise": {"classes": [], "bic": {}},
        "relations": {"classes": [], "bic": {}}, "dependence": [], "n": {"mean": 3.0, "low": None, "high": None},
        "K": {"mean": 5.0, "low": None, "high": None}, "candidates": {"pairs": None, "recall": None},
        "options": {"K": 5, "loss": "fp=1,fn=1"},
    }  # fmt: skip
    made = write_result(tmp_path / "out", links=None, changes=changes)
    root = check_structure(make_report(made)[0])
    assert set(figures(root)) == {
        "How many individuals there are", "Records per individual", "Which databases share individuals",
        "Course of the bound",
    }  # fmt: skip
    assert "mismatches assumed" in root.text
    tiles = [tile.text for tile in root.all("dl")[0].all("div")]
    assert any("Individuals (n)" in tile and "without an interval" in tile for tile in tiles)
    assert any("Population (K)" in tile and "given by --K" in tile for tile in tiles)
    assert "lists no links" in root.text


def test_one_database_and_no_doubt(tmp_path):
    made = write_result(tmp_path / "out", names=("a",), assigned=[(0, 0, 1, 1.0), (0, 1, 2, 1.0)], links=[])
    root = check_structure(make_report(made)[0])
    assert "There is one database" in root.text
    assert "No pair is doubtful enough" in root.text
    assert "Every individual has a confidence of 0.99 or more" in root.text


def test_no_records_at_all(tmp_path):
    check_structure(make_report(write_result(tmp_path / "out", assigned=[], links=[]))[0])


def test_what_is_wrong_with_the_run_comes_first(tmp_path):
    changes = {"warnings": ["K is too small"], "bound": {"converged": False, "sweeps": 2}}
    root = check_structure(make_report(write_result(tmp_path / "out", changes=changes))[0])
    overview = root.all("section")[0]
    items = [item.text.strip() for item in overview.all("div")[0].all("li")]
    assert items[0] == "K is too small"
    assert "stopped before it came to rest" in items[1]


def test_the_same_result_gives_the_same_page(tmp_path):
    made = write_result(tmp_path / "out", values=VALUES)
    assert make_report(made) == make_report(made)


def test_a_field_named_like_a_key(tmp_path):
    made = write_result(tmp_path / "out", fields=("row_", "town"), values=VALUES)
    path = made / "summary.json"
    summary = json.loads(path.read_text())
    summary["fields"][0]["field"] = "row"
    path.write_text(json.dumps(summary))
    links = made / "links.parquet"
    links.unlink()
    assert "Bob" in read_page(make_report(made)[0]).text


@pytest.mark.parametrize("broken", ["summary.json", "assignments.parquet", "links.parquet", "trace.parquet",
                                    "records.parquet"])  # fmt: skip
def test_broken_files(tmp_path, broken):
    made = write_result(tmp_path / "out", values=VALUES)
    (made / broken).write_text("no table")
    with pytest.raises(InputError) as caught:
        make_report(made)
    assert broken in caught.value.what


def test_a_link_to_nowhere(tmp_path):
    made = write_result(tmp_path / "out", links=[(0, 0, 1, 5, 0.9, (0, 0))])
    with pytest.raises(InputError, match=r"assignments\.parquet does not hold"):
        make_report(made)


@pytest.mark.parametrize("text", ["[]", "{}", '{"result": 3}'])
def test_another_json(tmp_path, text):
    made = write_result(tmp_path / "out")
    (made / "summary.json").write_text(text)
    with pytest.raises(InputError, match="not the summary of a vber result"):
        make_report(made)
