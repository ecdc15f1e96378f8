"""The kernel's messages about devices, CPUs and memory that appear or disappear: lib/kobject_uevent.c, man
7 netlink.
"""

from __future__ import annotations

import errno
import logging
import socket
from typing import NamedTuple

from zonewise.daemon.events.reasons import Reason

log = logging.getLogger(__name__)

_KOBJECT_UEVENT = 15  # include/uapi/linux/netlink.h NETLINK_KOBJECT_UEVENT
_KERNEL_GROUP = 1  # the kernel's own messages; udevd uses group 2 for messages in its own format
_MESSAGE = 8 << 10  # bytes; UEVENT_BUFFER_SIZE is 2 KiB, and the header has a path before that

_SUBSYSTEMS = frozenset(
    {"accel", "block", "cpu", "cxl", "dax", "drm", "infiniband", "memory", "net", "node", "nvme", "pci"}
)
_SOFTWARE = frozenset({"block", "net"})
"""Subsystems with devices that are not hardware: a pod's start creates veths, and attaching an image creates a loop
device."""

_VIRTUAL = "/devices/virtual/"
_SUBSYSTEM = "SUBSYSTEM="


class Uevent(NamedTuple):
    """One uevent message."""

    action: str
    """"add", "remove", "change", "move", "online", "offline", "bind" or "unbind"."""
    subsystem: str
    path: str
    """Path below /sys."""

    @property
    def matters(self) -> bool:
        """Return whether it may change the description of the machine."""
        if self.subsystem not in _SUBSYSTEMS:
            return False
        if self.subsystem == "block" and self.action == "change":
            return False  # a medium or its partitions, which are read again after each write to the whole disk
        return not (self.subsystem in _SOFTWARE and self.path.startswith(_VIRTUAL))


def parse_uevent(message: bytes) -> Uevent | None:
    """Decode a kernel message: "ACTION@PATH" and KEY=VALUE, each terminated by NUL; None for any other message."""
    header, _, rest = message.partition(b"\0")
    action, at, path = header.decode(errors="replace").partition("@")
    if not at or not path.startswith("/"):
        return None
    entries = rest.decode(errors="replace").split("\0")
    subsystem = next((entry.removeprefix(_SUBSYSTEM) for entry in entries if entry.startswith(_SUBSYSTEM)), "")
    return Uevent(action, subsystem, path)


class Uevents:
    """A socket of the kernel's messages, bound by open_uevents(); tests pass one end of a socket pair."""

    def __init__(self, messages: socket.socket) -> None:
        self._socket = messages
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that is readable while there are messages."""
        return self._socket.fileno()

    def read(self) -> set[Reason]:
        """Return Reason.HARDWARE if any pending message matters."""
        reasons: set[Reason] = set()
        while True:
            try:
                message, sender = self._socket.recvfrom(_MESSAGE)
            except BlockingIOError:
                return reasons
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                reasons.add(Reason.HARDWARE)  # more messages than the queue holds
                continue
            event = parse_uevent(message) if _is_kernel(sender) else None
            if event is not None and event.matters:
                log.debug("uevent: %s %s %s", event.action, event.subsystem, event.path)
                reasons.add(Reason.HARDWARE)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def open_uevents() -> Uevents | None:
    """Return the kernel's messages; None if they are not permitted."""
    try:
        messages = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _KOBJECT_UEVENT)
    except OSError as error:
        log.info("device events of the kernel cannot be received: %s", error.strerror)
        return None
    try:
        messages.bind((0, _KERNEL_GROUP))
    except OSError as error:
        messages.close()
        log.info("device events of the kernel cannot be received: %s", error.strerror)
        return None
    return Uevents(messages)


def _is_kernel(sender: object) -> bool:
    """Return whether a message is from the kernel, whose port id is 0; any process of root may send to a group."""
    return not isinstance(sender, tuple) or sender == (0, _KERNEL_GROUP)
