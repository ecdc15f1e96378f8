"""XIDs that NVML reports: a blocking call, in a child process that prints a line for each event.

Each process that registers gets every event. NVML reports XIDs of programs as well; in a virtual GPU's guest there are
none.
"""

from __future__ import annotations

import time
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.nvml.backend import GPU_IS_LOST, NvmlBackend, NvmlError
from zonewise.machine.nvml.queries import sysfs_address

if TYPE_CHECKING:
    from collections.abc import Callable

XID_EVENT = 0x8  # nvmlEventTypeXidCriticalError
TIMEOUT = 10  # NVML_ERROR_TIMEOUT
WAIT = 5000
"""Milliseconds of one wait."""
_MAX_GPUS = 256
_NO_INSTANCE = 0xFFFFFFFF  # nvmlEventData_t: the event belongs to no GPU instance, or to no compute instance of it


class NvmlXid(NamedTuple):
    """An XID event."""

    address: str
    """The address in sysfs notation."""
    code: int
    instance: str = ""
    """The GPU instance, or its compute instance: "5" or "5/0"; empty without MIG."""


def watch_xids(
    backend: NvmlBackend,
    report: Callable[[NvmlXid], None],
    stopped: Callable[[], bool],
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Report XIDs until stopped, which is checked after each wait. Raises NvmlError if there can be no events."""
    backend.start()
    events = backend.call("nvmlEventSetCreate")
    count = backend.call("nvmlDeviceGetCount")
    registered = sum(_register(backend, index, events) for index in range(min(int(str(count)), _MAX_GPUS)))
    if not registered:
        return
    while not stopped():
        try:
            event = backend.call("nvmlEventSetWait", events, WAIT)
        except NvmlError as error:
            if error.code == GPU_IS_LOST:
                pause(WAIT / 1000)  # further waits fail at once; other GPUs may still have events
            elif error.code != TIMEOUT:
                raise
            continue
        xid = _xid(event)
        if xid is not None:
            report(xid)


def _register(backend: NvmlBackend, index: int, events: object) -> bool:
    """Register a GPU; a GPU without events is left out."""
    try:
        handle = backend.call("nvmlDeviceGetHandleByIndex", index)
        backend.call("nvmlDeviceRegisterEvents", handle, XID_EVENT, events)
    except NvmlError:
        return False
    return True


def _xid(event: object) -> NvmlXid | None:
    """Return an event as an XID; None for other events, and for a device without an address."""
    match event:
        case (str(bus_id), int(kind), int(code), int(gpu), int(compute)) if kind == XID_EVENT:
            address = sysfs_address(bus_id)
            return None if address is None else NvmlXid(address, code, _instance(gpu, compute))
        case _:
            return None


def _instance(*numbers: int) -> str:
    return "/".join(str(number) for number in takewhile(lambda number: number != _NO_INSTANCE, numbers))
