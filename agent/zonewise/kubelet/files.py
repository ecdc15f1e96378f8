"""Small files of the kubelet: read as a whole, and recognized as unchanged without being read."""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import NamedTuple

READ_LIMIT = 64 << 20  # bytes; a device checkpoint of a thousand allocations is below 10 MB

_MIN_AGE = 50_000_000
"""Nanoseconds. The kernel stamps files by its tick, of up to 10 ms (CONFIG_HZ=100). A file younger than a few ticks may
be written again with the same stamp, size and inode."""


class Signature(NamedTuple):
    """A value that differs between two contents of one path."""

    device: int
    inode: int
    size: int
    modified: int
    """Time of modification in nanoseconds."""
    changed: int
    """Time of change in nanoseconds; advances even if a program sets the time of modification back."""


class Content(NamedTuple):
    """The content of a file."""

    content: bytes
    signature: Signature | None
    """None if the file is too fresh to be recognized later."""


def signature(path: str) -> Signature | None:
    """Return a file's signature; None if the file is too fresh, absent or unreadable, and only reading shows a
    change.
    """
    try:
        return _signature(os.stat(path))
    except OSError:
        return None


def read(path: str, limit: int = READ_LIMIT) -> Content:
    """Return a regular file's whole content with the signature of that content; raise OSError, also if the file has
    more than `limit` bytes.
    """
    # O_NONBLOCK: opening a FIFO would block forever
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", path)
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"is larger than {limit >> 20} MiB", path)
    return Content(content, _signature(status))


def _signature(status: os.stat_result) -> Signature | None:
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _MIN_AGE:
        return None
    return Signature(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
