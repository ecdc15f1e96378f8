"""Files of misses: each can be replayed, the newest are kept, and nothing that a name holds leaves the directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.fit_nodes import STATIC, container, node, pod
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.extender.misprediction_files import MispredictionFiles
from zonewise_scheduler.nodes.assumed.replay_case import read_case
from zonewise_scheduler.nodes.assumed.types import Misprediction

if TYPE_CHECKING:
    from pathlib import Path

NODE = node(topology="single-numa-node", **STATIC)
POD = pod(container(cpus=2, gib=1))


def miss(at: float = 0.0, name: str = "node-1", uid: str = "uid-1") -> Misprediction:
    return Misprediction(name, uid, "lab", "p", POD, NODE, (), admit(NODE, POD), "TopologyAffinityError", "no", at)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """A file holds the whole case; the directory is made."""
    MispredictionFiles(str(tmp_path / "new" / "one"), 3).write(miss())
    [file] = (tmp_path / "new" / "one").iterdir()
    assert read_case(file.read_text()) == miss()


def test_the_newest_are_kept(tmp_path: Path) -> None:
    """The oldest go, by when they happened; files of others stay."""
    (tmp_path / "notes.txt").write_text("mine")
    files = MispredictionFiles(str(tmp_path), 3)
    for day in range(5):
        files.write(miss(86_400.0 * day, uid=f"uid-{day}"))
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "19700103T000000Z-node-1-uid-2.miss.json", "19700104T000000Z-node-1-uid-3.miss.json",
        "19700105T000000Z-node-1-uid-4.miss.json", "notes.txt",
    ]  # fmt: skip


def test_names_lead_nowhere(tmp_path: Path) -> None:
    """Whatever a node or a pod is called, its file is in the directory."""
    MispredictionFiles(str(tmp_path / "here"), 3).write(miss(name="../../x", uid="../../../y/z"))
    assert [path.parent.name for path in tmp_path.rglob("*.json")] == ["here"]


def test_a_full_disk_is_no_accident(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be written is logged, and that is all."""
    directory = tmp_path / "gone"
    files = MispredictionFiles(str(directory), 3)
    directory.rmdir()
    files.write(miss())
    assert "miss-dir: " in caplog.text


def test_no_directory(tmp_path: Path) -> None:
    """Where there can be no directory, it is said at the start."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        MispredictionFiles(str(tmp_path / "file"), 3)
