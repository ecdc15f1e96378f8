"""Devices that are only in the checkpoint."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.kubelet.types import Allocatable, ContainerDevices
from zonewise.kubelet.unreported_devices import UnreportedDevices, unreported_devices

if TYPE_CHECKING:
    from pathlib import Path

GPU, NIC = "example.com/gpu", "example.com/nic"
REPORTED = Allocatable(devices=(ContainerDevices(GPU, ("a",), (0,)),))


class Files:
    """A kubelet's socket and checkpoint, created at given times in seconds."""

    def __init__(self, directory: Path) -> None:
        self.socket, self.checkpoint = directory / "socket", directory / "checkpoint"
        self.unreported = UnreportedDevices(str(self.checkpoint), str(self.socket))

    def write(self, *, socket: int, checkpoint: int) -> None:
        for path, second in ((self.socket, socket), (self.checkpoint, checkpoint)):
            path.touch()
            os.utime(path, (second, second))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    files_on_disk = Files(tmp_path)
    files_on_disk.write(socket=1, checkpoint=2)
    return files_on_disk


def test_a_registered_device_that_is_not_reported(files: Files) -> None:
    """The device is allocatable and has no zone."""
    registered = {GPU: ("b", "a"), NIC: ("x",)}
    more = (ContainerDevices(GPU, ("b",)), ContainerDevices(NIC, ("x",)))
    assert files.unreported.added_to(REPORTED, registered) == REPORTED._replace(devices=(*REPORTED.devices, *more))


def test_all_are_reported(files: Files) -> None:
    assert files.unreported.added_to(REPORTED, {GPU: ("a",)}) is REPORTED
    assert files.unreported.added_to(REPORTED, {}) is REPORTED


def test_a_checkpoint_of_before_the_start(files: Files) -> None:
    """A device registered in such a checkpoint does not count until the kubelet rewrites the checkpoint."""
    files.write(socket=3, checkpoint=2)
    assert files.unreported.added_to(Allocatable(), {GPU: ("b",)}) == Allocatable()
    files.write(socket=3, checkpoint=4)
    assert files.unreported.added_to(Allocatable(), {GPU: ("b",)}).devices == (ContainerDevices(GPU, ("b",)),)


def test_a_plugin_disconnects(files: Files) -> None:
    """A device that was reported before is not added without its zone when it is no longer reported."""
    files.unreported.added_to(REPORTED, {GPU: ("a",)})
    assert files.unreported.added_to(Allocatable(), {GPU: ("a",)}) == Allocatable()


def test_files_that_are_absent(tmp_path: Path) -> None:
    assert Files(tmp_path).unreported.added_to(REPORTED, {GPU: ("b",)}) is REPORTED


@given(
    st.dictionaries(st.sampled_from([GPU, NIC]), st.lists(st.sampled_from("abc"), unique=True)),
    st.sets(st.tuples(st.sampled_from([GPU, NIC]), st.sampled_from("abc"))),
)
def test_any(registered: dict[str, list[str]], reported: set[tuple[str, str]]) -> None:
    """The unreported devices are exactly the registered ones that are not reported."""
    unreported = {
        (devices.resource, device_id)
        for devices in unreported_devices(registered, reported)
        for device_id in devices.ids
    }
    assert unreported == {(resource, device_id) for resource, ids in registered.items() for device_id in ids} - reported
