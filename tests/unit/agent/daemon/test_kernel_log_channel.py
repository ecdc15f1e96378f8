"""The kernel log as a source of events: a flood of irrelevant records does not wake the loop."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from zonewise.daemon.events import Reason
from zonewise.daemon.events.source import open_event_source
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


def waits_idly(channel: KernelLogChannel) -> bool:
    """Return whether a wait without an event lasts for its timeout and uses hardly any CPU time."""
    with open_event_source([], [channel]) as events:
        events.wait(0)
        began, used = time.monotonic(), time.thread_time()
        reasons = events.wait(0.2)
        return not reasons and time.monotonic() - began >= 0.2 and time.thread_time() - used < 0.1


def test_a_pipe_whose_writer_has_left_is_read_at_each_scan(tmp_path: Path) -> None:
    path = str(tmp_path / "kmsg")
    os.mkfifo(path)
    with closing(KernelLogChannel(KernelLog(path))) as channel:
        os.close(os.open(path, os.O_WRONLY))
        assert waits_idly(channel)
        writer = os.open(path, os.O_WRONLY)
        os.write(writer, f"4,1,1000000,-;{XID}\n".encode())
        os.close(writer)
        assert [record.sequence for record in channel.take()] == [1]


def test_a_log_that_fails_is_reported_once_and_ends_neither_scans_nor_waits(caplog: pytest.LogCaptureFixture) -> None:
    with closing(KernelLogChannel(KernelLog("/proc/self/mem"))) as channel:  # its first page cannot be read: EIO
        assert [channel.take(), channel.take(), channel.read(), channel.fileno()] == [[], [], set(), -1]
    assert [record.message for record in caplog.records] == [
        "the kernel log cannot be read, and XIDs are not detected meanwhile: Input/output error"
    ]
