"""Files that record everything read from them, and a file tree in which the same reads have the same results."""

from __future__ import annotations

import errno
import posixpath
from typing import TYPE_CHECKING, TypeVar

from zonewise.machine.files import resolve
from zonewise.machine.replay import LINK, NAMES, READ, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise.machine.files import Files

OperationResult = bytes | str | list[str] | int
"""The result of an operation: a file's content, a link's text, the names in a directory, or an error number."""

Entries = dict[str, bytes | str | None]
"""A file tree, the input of MemoryFiles: bytes for a file, str for a link's text, None for a directory."""

NOT_CAPTURED = "/zonewise/not-captured"
"""Target of a name that was listed but never read: it leads nowhere, so a later reader finds nothing."""

A = TypeVar("A", bytes, str, list[str])


class RecordingFiles:
    """Files that record every result; see Files.

    They do not count as live, so that everything that discovery reads goes through them. `added` are further files.
    """

    live = False

    def __init__(self, files: Files, added: Mapping[str, bytes]) -> None:
        self.results: dict[Operation, OperationResult] = {}
        self._files = files
        self._added = added

    def read(self, path: str) -> bytes:
        """Return a file's content; see Files."""
        return self._remember((READ, path), self._added.__getitem__ if path in self._added else self._files.read)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; see Files."""
        return list(self._remember((NAMES, path), self._files.names))

    def link(self, path: str) -> str:
        """Return the text of a symbolic link; see Files."""
        return self._remember((LINK, path), self._files.link)

    def _remember(self, operation: Operation, read: Callable[[str], A]) -> A:
        try:
            result = read(operation[1])
        except OSError as error:
            self.results[operation] = error.errno or errno.EIO
            raise
        self.results[operation] = result
        return result


class Tree:
    """The file tree with the recorded results, built from them and from the links on the way to each."""

    def __init__(self, files: Files) -> None:
        self.entries: Entries = {}
        self._files = files

    def add(self, operation: Operation, result: OperationResult) -> None:
        """Add the result of an operation; nothing for an error, which an absent entry represents."""
        done, path = operation
        if isinstance(result, int):
            resolve(path, self._link)  # an unreadable file may still be behind links, which other paths follow
        elif done == LINK:
            resolve(posixpath.dirname(path), self._link)
            resolve(path, self._link)
        else:
            resolved = resolve(path, self._link)
            if isinstance(result, list):
                self._add_directory(resolved, result)
            elif resolved is not None and isinstance(result, bytes):
                self.entries[resolved] = result

    def _add_directory(self, directory: str | None, names: list[str]) -> None:
        if directory is None:
            return
        if directory:
            self.entries.setdefault(directory, None)
        for name in names:
            child = f"{directory}/{name}" if directory else name
            if child not in self.entries:
                self.entries[child] = self._kind(child)

    def _kind(self, path: str) -> str | None:
        """Return the entry for a name that has not been read yet: its link, a directory, or None."""
        text = self._text(path)
        return text if text is not None or self._is_directory(path) else NOT_CAPTURED

    def _link(self, path: str) -> str | None:
        """Return the text of a link, and add it to the tree: a path resolves only with all of its links."""
        known = self.entries.get(path)
        if path in self.entries and known != NOT_CAPTURED:
            return known if isinstance(known, str) else None
        text = self._text(path)
        if text is not None:
            self.entries[path] = text
        return text

    def _text(self, path: str) -> str | None:
        """Return the text of a link; None if there is none, or if it leads to the same path outside the root.

        The image has such a link from /host/proc to /proc. In a tree of its own, it would lead to itself.
        """
        try:
            text = self._files.link(path)
        except OSError:
            return None
        return None if text == f"/{path}" and self._is_directory(path) else text

    def _is_directory(self, path: str) -> bool:
        try:
            self._files.names(path)
        except OSError:
            return False
        return True
