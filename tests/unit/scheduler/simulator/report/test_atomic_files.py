"""Files that are either complete or absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zonewise_scheduler.simulator.report.atomic_files import atomic_replacement, check_writable


def test_a_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    """Until then the old file exists; the new one is written beside it, with the same suffix."""
    file = tmp_path / "out.json"
    file.write_text("old")
    with atomic_replacement(file) as path:
        path.write_text("new")
        assert (file.read_text(), path.parent, path.suffix) == ("old", tmp_path, ".json")
    assert (file.read_text(), os.listdir(tmp_path)) == ("new", ["out.json"])


def _break(file: Path, error: type[BaseException]) -> None:
    with atomic_replacement(file) as path:
        path.write_text("ne")
        raise error


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_incomplete_file_does_not_replace_the_old_one(tmp_path: Path, error: type[BaseException]) -> None:
    file = tmp_path / "out.json"
    file.write_text("old")
    with pytest.raises(error):
        _break(file, error)
    assert (file.read_text(), os.listdir(tmp_path)) == ("old", ["out.json"])


def test_a_symbolic_link_is_preserved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "out.json"
    link.symlink_to(tmp_path / "real" / "file.json")
    with atomic_replacement(link) as path:
        path.write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "real" / "file.json").read_text() == "new"


def test_devices_are_written_to() -> None:
    """A device cannot be replaced by a file."""
    check_writable(Path("/dev/null"))
    with atomic_replacement(Path("/dev/null")) as path:
        path.write_text("new")
    assert not Path("/dev/null").is_file()


def test_an_unwritable_path_is_reported_in_advance(tmp_path: Path) -> None:
    check_writable(tmp_path / "out.json")
    with pytest.raises(IsADirectoryError, match=r"is a directory$"):
        check_writable(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*none$"):
        check_writable(tmp_path / "none" / "out.json")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_write_permission_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="permission denied"):
        check_writable(tmp_path / "out.json")
