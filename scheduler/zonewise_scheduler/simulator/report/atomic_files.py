"""Writes files atomically."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


def check_writable(path: Path) -> None:
    """Raise OSError if a file cannot be written, as far as this can be known in advance."""
    folder = path.resolve().parent
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a directory")
    if not folder.is_dir():
        raise FileNotFoundError(f"{path}: there is no directory {folder}")
    if not os.access(path if _is_special(path) else folder, os.W_OK):
        raise PermissionError(f"{path}: cannot be written: permission denied")


@contextmanager
def atomic_replacement(path: Path) -> Generator[Path]:
    """Yield a temporary path with the same suffix; the file written to it then replaces the target.

    Devices and pipes are written directly. For a link, its target is replaced. Raises OSError.
    """
    if _is_special(path):
        yield path
        return
    target = path.resolve()
    temporary = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()
