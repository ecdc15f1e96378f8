"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zonewise_scheduler.simulator.report.atomic_files import atomic_replacement, check_writable


def test_a_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    """Until then the old one is there; the new one is written beside it, with the same ending."""
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
def test_what_is_not_whole_is_not_there(tmp_path: Path, error: type[BaseException]) -> None:
    file = tmp_path / "out.json"
    file.write_text("old")
    with pytest.raises(error):
        _break(file, error)
    assert (file.read_text(), os.listdir(tmp_path)) == ("old", ["out.json"])


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "out.json"
    link.symlink_to(tmp_path / "real" / "file.json")
    with atomic_replacement(link) as path:
        path.write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "real" / "file.json").read_text() == "new"


def test_devices_are_written_to() -> None:
    """They are no files that another could take the place of."""
    check_writable(Path("/dev/null"))
    with atomic_replacement(Path("/dev/null")) as path:
        path.write_text("new")
    assert not Path("/dev/null").is_file()


def test_what_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    check_writable(tmp_path / "out.json")
    with pytest.raises(IsADirectoryError, match=r"is a directory$"):
        check_writable(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*none$"):
        check_writable(tmp_path / "none" / "out.json")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_belongs_to_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="permission denied"):
        check_writable(tmp_path / "out.json")
