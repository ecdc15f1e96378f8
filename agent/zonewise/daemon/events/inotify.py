"""The kernel's inotify, which the standard library does not provide: man 7 inotify, include/uapi/linux/inotify.h."""

from __future__ import annotations

import ctypes
import os
import struct
from enum import IntFlag
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER = struct.Struct("iIII")  # wd, mask, cookie, length of the name with its padding of NULs
_BUFFER = 64 << 10  # bytes; an event is 16 to 272


class InotifyMask(IntFlag):
    """Bits of an event and of a watch."""

    MODIFY = 0x2
    ATTRIB = 0x4
    CLOSE_WRITE = 0x8
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    DELETE_SELF = 0x400
    MOVE_SELF = 0x800
    UNMOUNT = 0x2000
    Q_OVERFLOW = 0x4000
    IGNORED = 0x8000
    ONLYDIR = 0x1000000
    MASK_ADD = 0x20000000


class InotifyEvent(NamedTuple):
    """One event."""

    watch: int
    """Number of the watch; -1 for an event of the queue itself."""
    mask: int
    name: str
    """Name in the watched directory; empty for the directory itself."""


class Inotify:
    """One queue of events; each method raises OSError with the kernel's error."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")

    def fileno(self) -> int:
        """Return the descriptor, which is readable while there are events."""
        return self._descriptor

    def add(self, directory: str, mask: int) -> int:
        """Watch a directory, or add these events to an existing watch of it; return the number of the watch."""
        full_mask = mask | InotifyMask.ONLYDIR | InotifyMask.MASK_ADD
        path = os.fsencode(directory)
        return self._checked(
            self._libc.inotify_add_watch(self._descriptor, path, ctypes.c_uint32(full_mask)), directory
        )

    def remove(self, watch: int) -> None:
        """Stop watching; it is not an error if the kernel has already removed the watch."""
        self._libc.inotify_rm_watch(self._descriptor, watch)

    def read(self) -> list[InotifyEvent]:
        """Return the pending events."""
        events: list[InotifyEvent] = []
        while True:
            try:
                buffer = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                return events
            events.extend(decode(buffer))

    def close(self) -> None:
        """Close the queue and all its watches."""
        os.close(self._descriptor)

    def _checked(self, result: int, what: str) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), what)
        return result


def decode(buffer: bytes) -> Iterator[InotifyEvent]:
    """Yield the events from the bytes of one read."""
    position = 0
    while position < len(buffer):
        watch, mask, _, length = _HEADER.unpack_from(buffer, position)
        position += _HEADER.size
        name = buffer[position : position + length].rstrip(b"\0")
        position += length
        yield InotifyEvent(watch, mask, os.fsdecode(name))
