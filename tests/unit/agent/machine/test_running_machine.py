"""Which roots show the running machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from zonewise.machine.running_machine import is_running_machine

if TYPE_CHECKING:
    from pathlib import Path


def mounts(directory: Path, kind: str) -> str:
    """Return the path of a mount list in which the directory's device has this type."""
    device = os.stat(directory).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    file = directory / "mountinfo"
    file.write_text(
        f"21 1 0:999 / / rw - overlay overlay rw\n"
        f"23 27 {number} / /host/sys\\040x ro,nosuid shared:7 master:2 - {kind} {kind} rw\n"
        "damaged\n"
    )
    return str(file)


@pytest.mark.parametrize(("kind", "expected"), [("sysfs", True), ("ext4", False)])
def test_the_sysfs_of_the_kernel_decides(tmp_path: Path, kind: str, expected: bool) -> None:
    (tmp_path / "sys").mkdir()
    assert is_running_machine(str(tmp_path), mounts(tmp_path, kind)) is expected


def test_a_copied_tree_is_another_machine(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    assert not is_running_machine(str(tmp_path))


def test_a_link_to_the_sysfs_of_the_kernel_is_another_machine(tmp_path: Path) -> None:
    """Anybody can put such a link into a tree, and the tree must not be read as this machine."""
    (tmp_path / "sys").symlink_to("/sys")
    assert not is_running_machine(str(tmp_path))


def test_the_root_is_the_running_machine_whatever_the_mounts(tmp_path: Path) -> None:
    assert is_running_machine("/", str(tmp_path / "absent"))
    link = tmp_path / "root"
    link.symlink_to("/")
    assert is_running_machine(str(link), str(tmp_path / "absent"))


def test_a_root_without_a_tree_or_mounts_is_not_the_running_machine(tmp_path: Path) -> None:
    assert not is_running_machine(str(tmp_path))
    (tmp_path / "sys").mkdir()
    assert not is_running_machine(str(tmp_path), str(tmp_path / "absent"))
