"""What is written into every result file."""

import json
import platform

import pytest

from vber_cli.provenance import Provenance, new_digest, version, versions


def test_metadata_holds_nothing_of_the_machine():
    metadata = Provenance.of(3, "c" * 64, ["clinic", "é"], ["a" * 64, "b" * 64]).metadata()
    assert set(metadata) == {"version", "seed", "config_digest", "input_digests"}
    assert metadata["seed"] == "3"
    assert json.loads(metadata["input_digests"])[1] == {"database": "é", "sha256": "b" * 64}
    assert platform.node() not in "".join(metadata.values())


def test_one_digest_for_each_name():
    with pytest.raises(ValueError, match="shorter"):
        Provenance.of(0, "", ["a", "b"], ["x"])


def test_versions_name_the_libraries():
    found = versions()
    assert found["vber"] == version()
    assert {"python", "numpy", "pyarrow", "numba", "scipy"} <= set(found)
    assert "missing" not in found.values()


def test_digest_is_sha256():
    digest = new_digest()
    digest.update(b"abc")
    assert digest.hexdigest().startswith("ba7816bf")
