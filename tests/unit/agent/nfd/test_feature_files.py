"""The directory of feature files: which files are read, in which order, and the problems of the others."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from zonewise.machine.files import DirectoryFiles, MemoryFiles
from zonewise.nfd.feature_files import FEATURES_DIRECTORY, MAX_FILE_SIZE, read_local_features
from zonewise.nfd.types import NO_LOCAL_FEATURES, LocalFeatures, LocalLabel

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2030, 6, 1, 12, tzinfo=UTC)


def read(directory: Path) -> LocalFeatures:
    return read_local_features(DirectoryFiles("/"), str(directory), NOW)


def test_later_files_override(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("x=b\n")
    (tmp_path / "a").write_text("x=a\ny=a\n")
    content = read(tmp_path)
    assert content.features == {"x": "b", "y": "a"}
    assert content.labels == {"x": LocalLabel("b", f"{tmp_path}/b:1"), "y": LocalLabel("a", f"{tmp_path}/a:2")}
    assert content.problems == ()


def test_a_file_does_not_remove_elements_of_another(tmp_path: Path) -> None:
    """Directives apply to one file; NFD merges files by their elements."""
    (tmp_path / "a").write_text("x=a")
    (tmp_path / "b").write_text("# +no-label\nx=b")
    content = read(tmp_path)
    assert (content.features, content.labels["x"].value) == ({"x": "b"}, "a")


def test_entries_that_are_not_feature_files(tmp_path: Path) -> None:
    """Hidden files, directories and a FIFO are ignored; a link is read like its target."""
    (tmp_path / ".hidden").write_text("hidden")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "file").write_text("below")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(".hidden")
    assert (read(tmp_path).features, read(tmp_path).problems) == ({"hidden": "true"}, ())


@pytest.mark.parametrize(("size", "read_whole"), [(MAX_FILE_SIZE, True), (MAX_FILE_SIZE + 1, False)])
def test_large_files(size: int, read_whole: bool, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n".ljust(size, "\n"))
    (tmp_path / "b").write_text("y")
    content = read(tmp_path)
    assert ("x" in content.features) == read_whole
    assert "y" in content.features
    expected = f"{tmp_path}/a: ignored, because it has more than 65536 bytes"
    assert content.problems == (() if read_whole else (expected,))


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("missing")
    (tmp_path / "b").write_text("y")
    content = read(tmp_path)
    assert content.features == {"y": "true"}
    assert content.problems == (f"{tmp_path}/a: cannot be read: {os.strerror(errno.ENOENT)}",)


def test_without_a_directory(tmp_path: Path) -> None:
    """An absent directory is normal; a file in its place is a problem."""
    assert read(tmp_path / "missing") == NO_LOCAL_FEATURES
    (tmp_path / "file").write_text("x")
    assert read(tmp_path / "file").problems == (f"{tmp_path}/file: cannot be read: {os.strerror(errno.ENOTDIR)}",)


def test_below_a_root() -> None:
    files = MemoryFiles([(f"{FEATURES_DIRECTORY}/a", b"x=1")])
    assert read_local_features(files, FEATURES_DIRECTORY, NOW).labels == {
        "x": LocalLabel("1", "/etc/kubernetes/node-feature-discovery/features.d/a:1")
    }
