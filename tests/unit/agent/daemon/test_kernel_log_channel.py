"""The kernel log as a source of events: a flood of irrelevant records does not wake the loop."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from zonewise.daemon.events import Reason
from zonewise.daemon.kernel_log_channel import KernelLogChannel
from zonewise.machine.kernel_log import KernelLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CORRECTED = "pcieport 0000:3a:00.0: AER: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)"
MEMORY = "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[KernelLogChannel, int]]:
    path = str(tmp_path / "kmsg")
    os.mkfifo(path)
    channel = KernelLogChannel(KernelLog(path, started_at=lambda: 0.0))
    writer = os.open(path, os.O_WRONLY)
    yield channel, writer
    os.close(writer)
    channel.close()


def test_only_events_of_devices_wake_the_loop(pipe: tuple[KernelLogChannel, int]) -> None:
    channel, writer = pipe
    assert channel.fileno() >= 0
    for number in range(20):
        os.write(writer, f"4,{number},1000000,-;{(CORRECTED, MEMORY)[number % 2]}\n".encode())
    assert channel.read() == set()
    os.write(writer, f"4,20,2000000,-;{XID}\n".encode())
    assert channel.read() == {Reason.HEALTH}
    os.write(writer, f"4,21,3000000,-;{MEMORY}\n4,22,3000000,-;{XID}\n".encode())
    assert [(record.sequence, record.at) for record in channel.take()] == [(20, 2.0), (22, 3.0)]
    assert (channel.take(), channel.read()) == ([], set())
