"""The kernel log: records of /dev/kmsg, or lines of dmesg in a file.

A record of /dev/kmsg is "priority,sequence,microseconds,flags;message", followed by continuation lines that begin with
a space (Documentation/ABI/testing/dev-kmsg). A line of dmesg is "[seconds] message". Both times count from boot, by a
clock that stops while the machine sleeps.

Programs can write to the log as well, and some forward the logs of others to it. The kernel gives their records a
facility other than 0, which shows the origin of each record reliably (the same document).
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zonewise.machine.files import Files

DEVICE = "/dev/kmsg"
CAPTURED = "zonewise/kernel.log"
"""The path of the relevant lines in a capture, below its root."""
RELEVANT = re.compile(
    r"NVRM:|SXid|AER: |PCIe Bus Error|mlx5_core .*health|EDAC|Memory failure:|\bmce:|Hardware Error"
    r"|amdgpu .*(?:page fault \(src_id|GPU reset\(|ERREVENT_ATHUB_INTERRUPT)|device wedged,"
)
"""Records about devices: other parts of a log are neither captured nor interpreted."""

_KMSG_DEVICE = os.makedev(1, 11)  # Documentation/admin-guide/devices.txt
_RECORD_SIZE = 8192  # CONSOLE_EXT_LOG_MAX: a read with a smaller buffer fails with EINVAL
_MAX_RECORDS = 512
"""Maximum number of records of one read: a flood is read in parts, so that the loop serves other events in between."""
_MAX_CAPTURED = 4096
"""Maximum number of records of a capture."""
_EPOCH = 1e9
"""More seconds than any machine is up: a larger number counts from 1970."""
_MAX_LINE = 4096
"""Maximum characters of a text line: a record has at most 1 KiB (PRINTKRB_RECORD_MAX)."""
_FACILITY_SHIFT = 3  # a priority has the facility above the three bits of the level (kernel/printk/printk.c)
_KMSG = re.compile(r"(?P<priority>\d{1,6}),(?P<sequence>\d{1,20}),(?P<microseconds>\d{1,20}),[^;]*;(?P<message>.*)")
_DMESG = re.compile(
    r"(?:<(?P<priority>\d{1,3})>)?\[ *(?P<seconds>\d{1,12})\.(?P<fraction>\d{1,9})\](?:\[[^\]]*\])? ?(?P<message>.*)"
)


class LogRecord(NamedTuple):
    """One record of the kernel log."""

    sequence: int | None
    """Sequence number since boot; None in a text."""
    at: float | None
    """Seconds since the epoch; None if the boot's time is not known."""
    message: str


def parse_records(text: str, booted_at: float | None) -> Iterator[LogRecord]:
    """Yield the kernel's records in a text of either format; a line without a time becomes a record without one."""
    for line in text.splitlines():
        line = line[:_MAX_LINE]
        if line[:1] in ("", " "):  # a continuation line: key=value of the device
            continue
        match = _KMSG.fullmatch(line) or _DMESG.fullmatch(line)
        if match is None:
            yield LogRecord(None, None, line)
        elif int(match["priority"] or 0) >> _FACILITY_SHIFT:
            continue
        elif match.re is _KMSG:
            at = None if booted_at is None else booted_at + int(match["microseconds"]) / 1e6
            yield LogRecord(int(match["sequence"]), at, match["message"])
        else:
            yield LogRecord(None, _at(float(f"{match['seconds']}.{match['fraction']}"), booted_at), match["message"])


def _at(seconds: float, booted_at: float | None) -> float | None:
    """Return a dmesg time as a time since the epoch. A capture already has such times, so that it needs no
    other file.
    """
    if seconds >= _EPOCH:
        return seconds
    return None if booted_at is None else booted_at + seconds


def boot_time(files: Files) -> float | None:
    """Return the time at which the machine booted, from "btime" in /proc/stat; None if it is not known."""
    try:
        content = files.read("proc/stat")
    except OSError:
        return None
    match = re.search(rb"^btime (\d{1,12})$", content, re.MULTILINE)
    return float(match[1]) if match else None


def log_start() -> float:
    """Return the time since the epoch at which this machine's log clock was zero."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)


class KernelLog:
    """Reads the kernel log of the running machine from the oldest record on, without waiting."""

    def __init__(self, path: str = DEVICE, started_at: Callable[[], float] = log_start) -> None:
        """Open the log. Raises OSError: EPERM without CAP_SYSLOG if dmesg_restrict is set.

        A container runtime may create a directory in place of a device that the host lacks. In a node that is itself a
        container, the path may be a link to /dev/null or /dev/console.
        """
        self._started_at = started_at
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(self._descriptor)
        if stat.S_ISDIR(status.st_mode):
            self.close()
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if stat.S_ISCHR(status.st_mode) and status.st_rdev != _KMSG_DEVICE:
            self.close()
            raise OSError(errno.ENODEV, "is not the device of a kernel log", path)
        self._rest = b""
        """The beginning of a line whose end has not been read yet: a read of a file may end anywhere."""
        self.overruns = 0
        """How often records were overwritten before they were read."""
        self.drained = False
        """Whether the last read reached the newest record."""
        self.ended = False
        """Whether the last read reached the end of a file. The kernel's own log has no end."""

    def fileno(self) -> int:
        """Return the descriptor that is readable while there are records."""
        return self._descriptor

    def read(self) -> list[LogRecord]:
        """Return the available relevant records, at most a few hundred; empty if none is new."""
        started_at = self._started_at()
        records: list[LogRecord] = []
        self.drained = self.ended = False
        for _ in range(_MAX_RECORDS):
            try:
                content = os.read(self._descriptor, _RECORD_SIZE)
            except BlockingIOError:
                self.drained = True
                break
            except OSError as error:
                if error.errno != errno.EPIPE:  # overwritten: the next read continues after the gap
                    raise
                self.overruns += 1
                continue
            if not content:  # a regular file, or a pipe without a writer
                self.drained = self.ended = True
                break
            lines, end, rest = (self._rest + content).rpartition(b"\n")
            self._rest = rest[-_RECORD_SIZE:]
            text = (lines + end).decode("utf-8", "backslashreplace")
            if RELEVANT.search(text):
                records += [record for record in parse_records(text, started_at) if RELEVANT.search(record.message)]
        return records

    def read_all(self) -> list[LogRecord]:
        """Return all relevant records that are available."""
        records = self.read()
        while not self.drained:
            records += self.read()
        return records

    def close(self) -> None:
        """Close the log."""
        os.close(self._descriptor)


def captured_log(files: Files) -> list[LogRecord] | None:
    """Return the relevant records of a capture; None if it has no log."""
    try:
        content = files.read(CAPTURED)
    except OSError:
        return None
    return list(parse_records(content.decode("utf-8", "backslashreplace"), boot_time(files)))


def relevant_lines(path: str = DEVICE) -> bytes:
    """Return the newest relevant records of the running machine's log, for a capture: times are since the epoch.

    Raises OSError if the log cannot be read.
    """
    log = KernelLog(path)
    try:
        records = log.read_all()[-_MAX_CAPTURED:]
    finally:
        log.close()
    return "".join(f"[{record.at or 0:.6f}] {record.message}\n" for record in records).encode()
