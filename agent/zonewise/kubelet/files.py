"""Small files of the kubelet: read whole, and known again without a reading while they are as they were."""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import NamedTuple

READ_LIMIT = 64 << 20  # bytes; a device checkpoint of a thousand allocations with their answers is below 10 MB

_SETTLING = 50_000_000
"""Nanoseconds. The kernel stamps files by its tick, of up to 10 ms (CONFIG_HZ=100): one that is younger than a few of
them may be written again with the stamp it has, and a size and an inode that it had before."""


class Signature(NamedTuple):
    """What differs in two contents of one path."""

    device: int
    inode: int
    size: int
    modified: int
    """Nanoseconds."""
    changed: int
    """Nanoseconds; moves even where a program sets the time of modification back."""


class Content(NamedTuple):
    """What a file held."""

    content: bytes
    signature: Signature | None
    """None: too fresh to be known again."""


def signature(path: str) -> Signature | None:
    """Return a file's signature; None where it is too fresh, absent or out of reach, and only reading tells."""
    try:
        return _signature(os.stat(path))
    except OSError:
        return None


def read(path: str) -> Content:
    """Return a regular file's whole content with the signature of that content; raise OSError."""
    # O_NONBLOCK: a FIFO in the file's place would let us wait for ever
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is no regular file", path)
        content = file.read(READ_LIMIT + 1)
    if len(content) > READ_LIMIT:
        raise OSError(errno.EFBIG, f"is larger than {READ_LIMIT >> 20} MiB", path)
    return Content(content, _signature(status))


def _signature(status: os.stat_result) -> Signature | None:
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _SETTLING:
        return None
    return Signature(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
