"""A page on disk replaces nothing but an older page of its kind."""

import os

import pytest

from vber_cli.errors import OutputError
from vber_cli.io.pagefile import check_page, write_page

PAGE = '<!DOCTYPE html><meta name="generator" content="vber report 1"><p>{}'


def test_an_older_page_is_replaced(tmp_path):
    path = tmp_path / "page.html"
    for text in ("one", "two"):
        write_page(path, PAGE.format(text), "vber report")
        assert path.read_text() == PAGE.format(text)
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_link_keeps_pointing_to_its_page(tmp_path):
    (tmp_path / "page.html").write_text(PAGE)
    (tmp_path / "link.html").symlink_to("page.html")
    write_page(tmp_path / "link.html", PAGE.format("new"), "vber report")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "page.html").read_text() == PAGE.format("new")


@pytest.mark.parametrize("content", ["", "mine", PAGE.replace("vber report", "another")])
def test_another_file_stays(tmp_path, content):
    path = tmp_path / "page.html"
    path.write_text(content)
    with pytest.raises(OutputError, match="exists and is not a vber report"):
        write_page(path, PAGE, "vber report")
    assert path.read_text() == content


def test_a_directory_is_no_place(tmp_path):
    with pytest.raises(OutputError, match="is a directory"):
        check_page(tmp_path, "vber report")
    with pytest.raises(OutputError, match="is not a directory"):
        check_page(tmp_path / "no" / "page.html", "vber report")


def test_a_failed_write_leaves_the_old_page(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    write_page(path, PAGE.format("old"), "vber report")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OutputError, match="No space"):
        write_page(path, PAGE.format("new"), "vber report")
    assert path.read_text() == PAGE.format("old")
    assert os.listdir(tmp_path) == ["page.html"]
