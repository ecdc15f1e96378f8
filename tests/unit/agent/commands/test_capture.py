"""`zonewise capture`: a capture shows the same machine, and no existing file is overwritten by mistake."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

from support.command_line import run, run_rejected

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("plain_environment")


def test_capture_and_replay(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A replayed capture gives the same bytes as the machine if nothing was removed."""
    archive = str(tmp_path / "machine.tar.gz")
    output = run(capsys, "capture", archive, "--root", server, "--with-identifiers")
    assert output.startswith(f"{archive}: ")
    assert "share it with care" in output
    arguments = ("show", "-o", "json", "--root")
    assert run(capsys, *arguments, archive) == run(capsys, *arguments, server)


def test_a_file_name_that_is_not_text(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The archive is written, and its name is printed as far as the bytes can be decoded."""
    archive = f"{tmp_path}/\udcff.tar.gz"
    assert run(capsys, "capture", archive, "--root", server).startswith(f"{tmp_path}/?.tar.gz: ")
    assert tarfile.is_tarfile(archive)


def test_capture_overwrites_only_with_force(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An existing file is overwritten only with --force."""
    archive = tmp_path / "machine.tar.gz"
    archive.write_text("precious")
    assert "the file exists" in run_rejected(capsys, "capture", str(archive), "--root", server)
    assert archive.read_text() == "precious"
    assert "identifiers replaced" in run(capsys, "capture", str(archive), "--root", server, "--force")
    assert tarfile.is_tarfile(archive)


def test_capture_reports_why_it_failed(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file ending is unsupported, the directory does not exist, or the root does not exist."""
    assert "must end with .tar.zst, .tar.gz, .tgz" in run_rejected(capsys, "capture", "x.zip", "--root", server)
    nowhere = str(tmp_path / "no" / "x.tar.gz")
    assert "No such file or directory" in run_rejected(capsys, "capture", nowhere, "--root", server)
    assert "no such file" in run_rejected(capsys, "capture", str(tmp_path / "x.tar.gz"), "--root", "/no/such/place")
