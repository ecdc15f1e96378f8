"""Output of a command to a file, or to standard output in an encoding that may lack characters."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from zonewise_common.cli.command import CommandError
from zonewise_common.cli.output import STANDARD_OUTPUT, check_reader, supports_unicode, write


def _standard_output(monkeypatch: pytest.MonkeyPatch, encoding: str) -> io.BytesIO:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding=encoding))
    return content


@pytest.mark.parametrize(
    ("encoding", "written"), [("utf-8", "┌ é".encode()), ("ascii", b"? ?"), ("latin-1", b"? \xe9")]
)
def test_write_replaces_what_the_encoding_lacks(encoding: str, written: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    content = _standard_output(monkeypatch, encoding)
    write("┌ é", STANDARD_OUTPUT)
    assert content.getvalue() == written


def test_write_to_a_file_is_utf8(tmp_path: Path) -> None:
    write("┌ é\n", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == "┌ é\n".encode()


def test_write_names_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "no directory" / "out"
    with pytest.raises(CommandError, match=rf"cannot write to {path}: No such file or directory"):
        write("text", str(path))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_write_names_standard_output_where_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(CommandError, match="cannot write to standard output: No space left on device"):
            write("text", STANDARD_OUTPUT)
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space"):
            full.close()


@pytest.mark.parametrize(
    ("encoding", "supported"), [("utf-8", True), ("UTF8", True), ("ascii", False), ("latin-1", False)]
)
def test_supports_unicode(encoding: str, supported: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    _standard_output(monkeypatch, encoding)
    assert supports_unicode() is supported


def test_a_pipe_without_a_reader_is_noticed_without_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        check_reader()
        os.close(reader)
        with pytest.raises(BrokenPipeError):
            check_reader()


def test_a_file_needs_no_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _standard_output(monkeypatch, "utf-8")
    check_reader()
    with (tmp_path / "out").open("w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        check_reader()
