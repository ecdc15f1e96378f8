"""The kernel log: records of /dev/kmsg and lines of dmesg, read without waiting."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from zonewise.machine.files import MemoryFiles
from zonewise.machine.kernel_log import CAPTURED, KernelLog, LogRecord, captured_log, parse_records, relevant_lines

if TYPE_CHECKING:
    from pathlib import Path

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus."


def test_both_formats() -> None:
    text = (
        f"6,7,2500000,-,caller=T1;{XID}\n SUBSYSTEM=pci\n[    2.500000][  T1] {XID}\n<4>[ 1700000000.5] late\nplain\n\n"
    )
    assert list(parse_records(text, 100.0)) == [
        LogRecord(7, 102.5, XID), LogRecord(None, 102.5, XID), LogRecord(None, 1700000000.5, "late"),
        LogRecord(None, None, "plain"),
    ]  # fmt: skip
    assert next(parse_records(text, None)).at is None


@pytest.mark.parametrize("line", [f"12,7,2500000,-;{XID}", f"30,7,2500000,-;dcgm: {XID}", f"<12>[    2.5] {XID}"])
def test_records_of_programs_are_ignored(line: str) -> None:
    """A program that forwards or quotes a line of the kernel raises no event."""
    assert list(parse_records(line, 100.0)) == []


def test_a_live_log_is_read_once(tmp_path: Path) -> None:
    """A FIFO stands in for /dev/kmsg: it has no end either, and only new content makes it readable."""
    path = str(tmp_path / "kmsg")
    os.mkfifo(path)
    log = KernelLog(path, started_at=lambda: 100.0)
    writer = os.open(path, os.O_WRONLY)
    try:
        assert (log.read(), log.drained) == ([], True)
        os.write(writer, f"6,7,2500000,-;{XID}\n".encode())
        assert log.read_all() == [LogRecord(7, 102.5, XID)]
        os.write(writer, b"6,8,2500000,-;usb 1-1: new device\n")
        assert log.read() == []
    finally:
        os.close(writer)
        log.close()


def test_a_read_that_ends_within_a_line_does_not_split_a_record(tmp_path: Path) -> None:
    path = tmp_path / "kernel.log"
    lines = [f"6,{number},2500000,-;{XID}\n" for number in range(300)]
    path.write_text("".join(lines)[:-10])
    log = KernelLog(str(path), started_at=lambda: 100.0)
    try:
        before = log.read_all()
        with path.open("a") as file:
            file.write("".join(lines)[-10:])
        assert [*before, *log.read_all()] == [LogRecord(number, 102.5, XID) for number in range(300)]
        assert len(before) == 299
    finally:
        log.close()


def test_an_absent_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        KernelLog(str(tmp_path / "none"))


def test_another_device_is_an_error(tmp_path: Path) -> None:
    """In a node that is itself a container, /dev/kmsg may be a link to another device."""
    path = tmp_path / "kmsg"
    path.symlink_to(os.devnull)
    with pytest.raises(OSError, match=f"is not the device of a kernel log: '{path}'"):
        KernelLog(str(path))


def test_the_times_of_a_capture_are_its_own(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(f"6,7,2500000,-;{XID}\n")
    content = relevant_lines(str(path))
    (record,) = captured_log(MemoryFiles([(CAPTURED, content)])) or []
    assert (record.message, (record.at or 0) > 1e9) == (XID, True)
    assert captured_log(MemoryFiles([])) is None
    seconds = MemoryFiles([(CAPTURED, f"[    2.500000] {XID}\n".encode()), ("proc/stat", b"cpu 1\nbtime 1700000000\n")])
    assert captured_log(seconds) == [LogRecord(None, 1700000002.5, XID)]
