"""Versions of files, to detect that another program has replaced them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FileVersions = tuple[tuple[int, int, int], ...]
"""Inode, size and modification time in nanoseconds of each file."""


def file_versions(names: Iterable[str]) -> FileVersions:
    """Return the versions of files; none if one of them is absent."""
    try:
        files = [os.stat(name) for name in names]
    except OSError:
        return ()
    return tuple((file.st_ino, file.st_size, file.st_mtime_ns) for file in files)
