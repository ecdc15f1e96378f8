"""The files that discovery reads: those of a live machine, a directory, or a captured archive.

Paths are relative to the root and have no leading slash: "sys/devices/system/cpu/online". Every read either returns the
content or raises the kernel's OSError. So a collector cannot distinguish a snapshot from a machine.
"""

from __future__ import annotations

import errno
import os
import posixpath
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LIVE_ROOT = "/"
READ_LIMIT = 8 << 20  # bytes; /proc/cpuinfo of 4,096 x86 CPUs is 6 MiB, all other files are far smaller
_MAX_LINKS = 40  # include/linux/namei.h MAXSYMLINKS: beyond this number the kernel itself raises ELOOP


class RootError(Exception):
    """The root cannot be used; the message has the reason, in one line."""


class Files(Protocol):
    """The files of one machine."""

    @property
    def live(self) -> bool:
        """Whether this is the running machine, so that its drivers and system calls may be used as well."""
        ...

    def read(self, path: str) -> bytes:
        """Return a file's content, at most READ_LIMIT bytes; raise OSError."""
        ...

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, in no particular order; raise OSError."""
        ...

    def link(self, path: str) -> str:
        """Return the text of a symbolic link; raise OSError, with EINVAL if the path is not a link."""
        ...


class DirectoryFiles:
    """The files below a directory. They are those of the running machine if the directory is "/" or the caller sets
    `live`.

    An agent in a container sets it if the host's sysfs is below the directory (zonewise.machine.running_machine). In a
    copied tree, links are followed as after chroot(2): neither "/" nor ".." leads out of the directory. In the running
    machine, the kernel follows them: the image has links from its /host to the container's own files.
    """

    def __init__(self, directory: str, *, live: bool = False) -> None:
        self.live = live or os.path.realpath(directory) == LIVE_ROOT
        self._directories: dict[str, str] = {}
        """The directories of paths, and where their links lead. A copied tree keeps its links."""
        try:
            # an open descriptor for the root makes every later path shorter to resolve
            self._root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotADirectoryError as error:
            raise RootError(f"root {directory}: not a directory; unpack an archive first") from error
        except OSError as error:
            raise RootError(f"root {directory}: {error.strerror}") from error

    def read(self, path: str) -> bytes:
        """Return a file's content; see Files."""
        # O_NONBLOCK: a damaged tree may have a FIFO instead of a file, and opening that would wait forever
        descriptor = self._open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            content = os.read(descriptor, 65536)
            # one read returns a whole sysfs attribute, but for a file in /proc only the records that fit into a page
            if len(content) < 4096 and path.startswith("sys/"):
                return content
            return content + _rest(descriptor)
        finally:
            os.close(descriptor)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; see Files."""
        descriptor = self._open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def link(self, path: str) -> str:
        """Return the text of a symbolic link; see Files."""
        path = _inside(path)
        return os.readlink(path if self.live else self._entry(path), dir_fd=self._root)

    def _open(self, path: str, flags: int) -> int:
        path = _inside(path)
        if self.live:
            return os.open(path, flags, dir_fd=self._root)
        flags |= os.O_NOFOLLOW
        try:
            return os.open(self._entry(path), flags, dir_fd=self._root)
        except OSError as error:
            # open(2): O_NOFOLLOW fails with ELOOP on a link, and with ENOTDIR if O_DIRECTORY is set as well
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
        return os.open(self._resolve(path), flags, dir_fd=self._root)

    def _entry(self, path: str) -> str:
        """Return a path of the same entry that has no link before its last part; raise OSError for too many links."""
        parent, _, name = path.rpartition("/")
        if name == "..":
            return self._resolve(path)
        directory = self._directories.get(parent)
        if directory is None:
            directory = self._directories[parent] = self._resolve(parent)
        return f"{directory}/{name}"

    def _resolve(self, path: str) -> str:
        """Return the path without its links, whose last part may be absent; raise OSError for too many links."""
        resolved = resolve(path, self._link)
        if resolved is None:
            raise _os_error(errno.ELOOP, path)
        return resolved or "."

    def _link(self, path: str) -> str | None:
        if self._directories.get(path) == path:
            return None
        try:
            return os.readlink(path, dir_fd=self._root)
        except OSError:  # not a link, or the kernel's error for the path, which opening it raises again
            return None

    def __del__(self) -> None:
        if (root := getattr(self, "_root", None)) is not None:
            os.close(root)


def _inside(path: str) -> str:
    """Return a path that is not absolute: parts of paths come from files with arbitrary content."""
    if "\0" in path:
        raise _os_error(errno.ENOENT, path)
    return path.lstrip("/") or "."


def _rest(descriptor: int) -> bytes:
    parts: list[bytes] = []
    left = READ_LIMIT
    while left > 0 and (part := os.read(descriptor, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


class MemoryFiles:
    """The files of a captured machine, in memory; links are resolved inside the capture and never leave it."""

    live = False

    def __init__(self, contents: Iterable[tuple[str, bytes | str | None]]) -> None:
        """Build from (path, content) pairs: bytes for a file, str for a link's text, None for an empty directory."""
        self._entries: dict[str, bytes | str] = {}
        self._directories: dict[str, list[str]] = {"": []}
        self._resolved: dict[str, str] = {}
        """Paths that have been resolved before, such as the directory of many files."""
        for path, content in contents:
            if content is None:
                self._add_directory(path)
            else:
                self._add(path, content)

    def _add(self, path: str, content: bytes | str) -> None:
        if path in self._entries:
            self._entries[path] = content
        elif path not in self._directories:
            self._entries[path] = content
            self._add_name(path)

    def _add_directory(self, path: str) -> None:
        if path not in self._directories and path not in self._entries:
            self._directories[path] = []
            self._add_name(path)

    def _add_name(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        self._add_directory(parent)
        if parent in self._directories:
            self._directories[parent].append(name)

    def read(self, path: str) -> bytes:
        """Return a file's content; see Files."""
        entry = self._entries.get(path)
        if isinstance(entry, bytes):
            return entry
        resolved = self._resolve(path)
        entry = self._entries.get(resolved)
        if isinstance(entry, bytes):
            return entry
        raise _os_error(errno.EISDIR if resolved in self._directories else errno.ENOENT, path)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; see Files."""
        names = self._directories.get(path)
        if names is None:
            resolved = self._resolve(path)
            names = self._directories.get(resolved)
            if names is None:
                raise _os_error(errno.ENOTDIR if resolved in self._entries else errno.ENOENT, path)
        return list(names)

    def link(self, path: str) -> str:
        """Return the text of a symbolic link; see Files."""
        parent, _, name = path.rpartition("/")
        resolved = posixpath.join(self._resolve(parent), name)
        entry = self._entries.get(resolved)
        if isinstance(entry, str):
            return entry
        known = entry is not None or resolved in self._directories
        raise _os_error(errno.EINVAL if known else errno.ENOENT, path)

    def _resolve(self, path: str) -> str:
        known = self._resolved.get(path)
        if known is not None:
            return known
        resolved = resolve(path, self._link)
        if resolved is None:
            raise _os_error(errno.ELOOP, path)
        self._resolved[path] = resolved
        return resolved

    def _link(self, path: str) -> str | None:
        entry = self._entries.get(path)
        return entry if isinstance(entry, str) else None


def resolve(path: str, link_at: Callable[[str], str | None]) -> str | None:
    """Follow every link in a path as the kernel would if the machine's root were its root directory.

    `link_at` returns the text of the link at a path, None if there is no link. Return None for too many links.
    """
    waiting = path.split("/")[::-1]
    resolved = ""
    links = 0
    while waiting:
        name = waiting.pop()
        if name in ("", "."):
            continue
        if name == "..":
            resolved = resolved.rpartition("/")[0]
            continue
        step = f"{resolved}/{name}" if resolved else name
        target = link_at(step)
        if target is None:
            resolved = step
            continue
        links += 1
        if links > _MAX_LINKS:
            return None
        if target.startswith("/"):
            resolved = ""
        waiting.extend(target.split("/")[::-1])
    return resolved


def _os_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
