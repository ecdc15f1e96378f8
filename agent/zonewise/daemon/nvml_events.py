"""XIDs from NVML, through a child process that waits for them: a call into the driver may never return."""

from __future__ import annotations

import logging
import os
import re
import select
import sys
from typing import TYPE_CHECKING

from zonewise.health.types import GPU, DeviceEvent, DeviceId
from zonewise.machine.sysfs import is_pci_address

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

log = logging.getLogger(__name__)

READER = "nvml-events"
RESTART_PAUSE = 600.0
"""Seconds until the child is started again: the driver may be reloaded."""
_COMMAND = (sys.executable, "-P", "-m", "zonewise.machine.nvml", "events")
_STOP_CHECK_INTERVAL = 5.0
"""Seconds between two checks whether to stop."""
_MAX_LINE = 65536
_LINE = re.compile(r"(\S+) ([0-9]{1,6})(?: ([0-9]+(?:/[0-9]+)?))?")


def watch_nvml_events(
    report: Callable[[DeviceEvent], None], stopped: threading.Event, command: Sequence[str] = _COMMAND
) -> None:
    """Report XIDs until stopped; the child is restarted when it ends."""
    while not stopped.is_set():
        _run_child(report, stopped, command)
        stopped.wait(RESTART_PAUSE)


def _run_child(report: Callable[[DeviceEvent], None], stopped: threading.Event, command: Sequence[str]) -> None:
    from subprocess import DEVNULL, PIPE, Popen

    path = os.pathsep.join(os.path.abspath(directory) for directory in sys.path)
    try:
        child = Popen(
            command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
    except OSError as error:
        log.warning("NVML's events cannot be read: %s", error.strerror)
        return
    with child:
        for line in _lines(child.stdout.fileno() if child.stdout is not None else -1, stopped):
            event = parse_event(line)
            if event is not None:
                report(event)
        child.kill()


def _lines(descriptor: int, stopped: threading.Event) -> Iterator[str]:
    """Yield lines as they arrive, until the other end is closed or until stopped."""
    rest = b""
    poll = select.poll()  # select() rejects descriptors from 1,024 on, and the server may have 2,048 connections
    poll.register(descriptor, select.POLLIN)
    while not stopped.is_set() and len(rest) < _MAX_LINE:
        if not poll.poll(_STOP_CHECK_INTERVAL * 1000):
            continue
        part = os.read(descriptor, 4096)
        if not part:
            return
        *lines, rest = (rest + part).split(b"\n")
        yield from (line.decode("ascii", "replace") for line in lines)


def parse_event(line: str) -> DeviceEvent | None:
    """Return the event in a line from the child; None for other lines, such as those that a library prints."""
    match = _LINE.fullmatch(line.strip())
    if match is None or not is_pci_address(match[1]):
        return None
    return DeviceEvent(
        "xid",
        DeviceId(GPU, match[1]),
        None,
        int(match[2]),
        f"XID {match[2]}",
        READER,
        instance=match[3] or "",
    )
