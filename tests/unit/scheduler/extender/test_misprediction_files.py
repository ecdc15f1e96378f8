"""Files of mispredictions: each can be replayed, the newest are kept, and no name leads out of the directory."""

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


def misprediction(at: float = 0.0, name: str = "node-1", uid: str = "uid-1") -> Misprediction:
    return Misprediction(name, uid, "lab", "p", POD, NODE, (), admit(NODE, POD), "TopologyAffinityError", "no", at)


def test_a_file_can_be_read_again(tmp_path: Path) -> None:
    """A file contains the whole case; a missing directory is created."""
    MispredictionFiles(str(tmp_path / "new" / "one"), 3).write(misprediction())
    [file] = (tmp_path / "new" / "one").iterdir()
    assert read_case(file.read_text()) == misprediction()


def test_the_newest_files_remain(tmp_path: Path) -> None:
    """The oldest files are deleted, in the order of the mispredictions; other files are not touched."""
    (tmp_path / "notes.txt").write_text("mine")
    files = MispredictionFiles(str(tmp_path), 3)
    for day in range(5):
        files.write(misprediction(86_400.0 * day, uid=f"uid-{day}"))
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "19700103T000000Z-node-1-uid-2.misprediction.json", "19700104T000000Z-node-1-uid-3.misprediction.json",
        "19700105T000000Z-node-1-uid-4.misprediction.json", "notes.txt",
    ]  # fmt: skip


def test_no_name_leads_out_of_the_directory(tmp_path: Path) -> None:
    """The file is in the directory for any names of node and pod."""
    MispredictionFiles(str(tmp_path / "here"), 3).write(misprediction(name="../../x", uid="../../../y/z"))
    assert [path.parent.name for path in tmp_path.rglob("*.json")] == ["here"]


def test_write_errors_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If a file cannot be written, the error is logged and no exception is raised."""
    directory = tmp_path / "gone"
    files = MispredictionFiles(str(directory), 3)
    directory.rmdir()
    files.write(misprediction())
    assert "mispredictionDir: " in caplog.text


def test_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    """If the directory cannot be created, starting fails."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        MispredictionFiles(str(tmp_path / "file"), 3)
