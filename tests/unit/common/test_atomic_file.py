"""Files that are replaced at once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from zonewise_common.atomic_file import replace_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_is_replaced_with_its_permissions(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"old", b"new"):
        replace_file(str(path), content, mode)
        assert path.read_bytes() == content
        assert path.stat().st_mode & 0o777 == mode
        assert list(tmp_path.iterdir()) == [path]


def test_a_path_without_a_directory_is_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    replace_file("file", b"new", 0o600)
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("step", ["chmod", "replace"])
def test_an_error_leaves_the_old_file(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="no space left"):
        replace_file(str(path), b"new", 0o644)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_fifo_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(OSError, match="is not a regular file"):
        replace_file(str(path), b"new", 0o644)
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]
