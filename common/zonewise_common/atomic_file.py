"""Replaces a file at once, so that a reader sees its old content or its new content and never a part."""

from __future__ import annotations

import errno
import os
import tempfile


def replace_file(path: str, content: bytes, mode: int) -> None:
    """Write a file next to its destination and move it there. Raises OSError, and then leaves the old file.

    A device, a FIFO or a directory is never replaced. `mode`: the permissions. Before they are set, only the owner may
    read the file.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "is not a regular file", path)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".zonewise-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
