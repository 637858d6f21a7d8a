"""Four people at one address with one surname stay four; one of them recorded again, misspelt, becomes one."""

from __future__ import annotations

import random

import pytest

from tests.cli.merging import merge, write_rows
from tests.cli.test_swapped_names import FAMILY, GIVEN

HEADER = ["id", "given", "family", "born", "street", "postcode"]
N_HOUSEHOLDS = 250
STREETS = [a + b for a in ("Mill", "Church", "High", "Oak", "Station", "River") for b in (" Lane", " Road", " Street")]


def misspelt(word, rng):
    at = rng.randrange(1, len(word) - 1)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def birthday(rng):
    return f"{rng.randint(1930, 2005)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


@pytest.fixture(scope="module")
def household(vber, tmp_path_factory):
    """The individual of each record: households of one to four, a third of the people again in the second file."""
    folder = tmp_path_factory.mktemp("households")
    rng = random.Random(5)
    one, two = [], []
    for h in range(N_HOUSEHOLDS):
        family, street = rng.choice(FAMILY), f"{rng.randint(1, 90)} {rng.choice(STREETS)}"
        postcode = f"{10_000 + 37 * (h % 120)}"
        members = 4 if h == 0 else rng.randint(1, 4)
        for m, given in enumerate(rng.sample(GIVEN, members)):
            born = birthday(rng)
            one.append([f"h{h}m{m}", given, family, born, street, postcode])
            if (h == 0 and m == 0) or (h > 0 and rng.random() < 0.33):
                wrong = misspelt(given, rng) if h == 0 or rng.random() < 0.3 else given
                two.append([f"again{h}m{m}", wrong, family, born, street, postcode])
    files = [write_rows(folder / f"{name}.csv", HEADER, rows) for name, rows in (("one", one), ("two", two))]
    table = merge(vber, folder / "out", *files, "-q").table("assignments")
    return dict(zip(table["record_id"].astype(str), table["individual"], strict=True))


def test_four_people_at_one_address_stay_four(household):
    assert len({household[f"h0m{m}"] for m in range(4)}) == 4


def test_one_of_them_again_with_a_typo_is_one(household):
    assert household["again0m0"] == household["h0m0"]


def test_so_it_is_everywhere(household):
    again = {name.replace("again", "h"): individual for name, individual in household.items() if name[0] == "a"}
    assert len(again) > 100
    found = sum(household[name] == individual for name, individual in again.items())
    assert found >= 0.97 * len(again)
    first = [individual for name, individual in household.items() if name[0] == "h"]
    assert len(set(first)) >= 0.99 * len(first)
