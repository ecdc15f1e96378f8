"""The tree of a capture, for roots that no captured tree resembles; test_replay has the rules for all trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.capture.recording import Tree
from zonewise.machine.files import DirectoryFiles, MemoryFiles
from zonewise.machine.replay import NAMES, READ

if TYPE_CHECKING:
    from pathlib import Path


def test_a_link_to_the_same_path_outside_the_root(tmp_path: Path) -> None:
    """The agent's image has a link from /host/proc to /proc, whose files a capture of /host contains."""
    (tmp_path / "proc").symlink_to("/proc")
    files = DirectoryFiles(str(tmp_path), live=True)
    tree = Tree(files)
    tree.add((NAMES, ""), files.names(""))
    tree.add((READ, "proc/version"), b"Linux")
    captured = MemoryFiles(tree.entries.items())
    assert captured.names("") == ["proc"]
    assert captured.read("proc/version") == b"Linux"
