"""Tables as CSV text."""

import csv
import io

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from vber_cli.results.csv_text import csv_chunk, csv_header


def test_only_what_needs_quotes_gets_them():
    batch = pa.record_batch(
        {
            "a": ["plain", "x,y", 'q"q', "two\nlines", "", None],
            "b": pa.array(["u", None, "u", "v", "u", "v"]).dictionary_encode(),
            "c": pa.array([1, None, -3, 4, 5, 6], pa.int8()),
            "d": [0.1, 1e-9, 1.0, None, 2.0, 3.0],
        }
    )
    text = csv_header(["a", "b,c"]) + csv_chunk(batch)
    assert text.decode().split("\n")[:4] == ['a,"b,c"', "plain,u,1,0.1", '"x,y",,,1e-9', '"q""q",u,-3,1']
    assert csv_chunk(batch.slice(4)) == b'"",u,5,2\n,v,6,3\n'
    assert csv_chunk(batch.slice(0, 0)) == b""


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=2, max_size=2),
        min_size=1,
    )
)
def test_any_text_comes_back(rows):
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(2)]
    text = csv_chunk(pa.record_batch(columns, ["a", "b"])).decode()
    assert list(csv.reader(io.StringIO(text, newline=""))) == rows
