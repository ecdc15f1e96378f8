"""The type of collectors. To add one, write a file with a COLLECTOR in `collectors/`, and name it in its `__init__`.

A collector is a function. Its input is the files of a machine and the facts of earlier collectors. Its result is the
machine with a few more fields filled. It has no state and no side effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from zonewise.machine.files import Files
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader


class NoData(Exception):
    """The machine has nothing of this kind; the message names what is absent.

    This is not an error: most machines have no InfiniBand.
    """


class Collector(NamedTuple):
    """A named part of discovery."""

    name: str
    provides: tuple[str, ...]
    """The fields of Machine that it fills, or refines if an earlier collector has filled them."""
    needs: tuple[str, ...]
    """The fields of Machine that it reads; the collectors that fill them run first."""
    collect: Callable[[Reader, Machine], Machine]
    """Return the machine with the fields `provides` filled. Raises NoData."""
    volatile: Callable[[Peek], Hashable]
    """Return everything that could differ at the next scan, with few and cheap reads. If the value is equal, the facts
    are unchanged."""


class Peek:
    """Reads for `Collector.volatile`: raw, and without reporting problems, since only equality matters."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.contents: dict[str, bytes] = {}
        """The contents already read, so that a collector that then runs reads no file twice."""

    def content(self, path: str) -> bytes | int | None:
        """Return a file's content, or the error number."""
        content = self.contents.get(path)
        if content is None:
            try:
                content = self.contents[path] = self._files.read(path)
            except OSError as error:
                return error.errno
        return content

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted; none if it cannot be listed."""
        try:
            return tuple(sorted(self._files.names(path)))
        except OSError:
            return ()

    def link(self, path: str) -> str | None:
        """Return the text of a symbolic link; None if the path is not a link."""
        try:
            return self._files.link(path)
        except OSError:
            return None
