"""Watches files by their directories, even if directories are renamed, replaced or removed.

The kubelet and ConfigMaps replace a file by a rename. A watch on the file itself would follow the old inode; a watch on
its directory sees the new one. If a directory is absent, its nearest existing parent is watched until the directory
appears.
"""

from __future__ import annotations

import errno
import fnmatch
import logging
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from zonewise.daemon.events.inotify import Inotify, InotifyMask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise.daemon.events.inotify import InotifyEvent
    from zonewise.daemon.events.reasons import Reason

log = logging.getLogger(__name__)

_CONTENT = (
    InotifyMask.CREATE | InotifyMask.MOVED_TO | InotifyMask.MOVED_FROM | InotifyMask.DELETE | InotifyMask.CLOSE_WRITE
)
_TOUCH = InotifyMask.MODIFY | InotifyMask.ATTRIB
_ITSELF = InotifyMask.DELETE_SELF | InotifyMask.MOVE_SELF
_ABOVE = InotifyMask.CREATE | InotifyMask.MOVED_TO
_REMOVED = _ITSELF | InotifyMask.IGNORED | InotifyMask.UNMOUNT

_TRIES = 8  # a path that changes more often is checked again by the next settle()
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})


class WatchRule(NamedTuple):
    """Files of one directory, and the reason to scan again when one of them changes."""

    directory: str
    names: tuple[str, ...]
    """Glob patterns."""
    reason: Reason
    touched: bool = False
    """Whether a write without a close, or a change of attributes, counts as well."""

    def matches(self, name: str) -> bool:
        """Return whether the rule covers a file."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.names)


class _WatchedDirectory(NamedTuple):
    """The directory that is watched on behalf of a rule's directory."""

    path: str
    """The rule's directory, or its nearest existing parent."""
    identity: tuple[int, int] | None
    """Device and inode; None if known to be outdated."""
    watch: int | None
    """Number of the watch; if None, the kernel rejected the watch, and the directory is polled."""


class FileWatches:
    """Watches the files of several rules. Not thread-safe."""

    def __init__(self, rules: Iterable[WatchRule], open_queue: Callable[[], Inotify] = Inotify) -> None:
        self._rules: dict[str, list[WatchRule]] = {}
        for rule in rules:
            self._rules.setdefault(os.path.abspath(rule.directory), []).append(rule)
        self._held: dict[str, _WatchedDirectory] = {}
        self._watching: set[int] = set()
        self._polled_signatures: dict[str, dict[WatchRule, frozenset[object]]] = {}
        self._warned = False
        self._queue = self._open_queue(open_queue)
        self.settle()

    @property
    def polled(self) -> bool:
        """Whether a directory is not watched by the kernel, so that settle() must be called periodically."""
        return bool(self._polled_signatures)

    def fileno(self) -> int:
        """Return the descriptor that is readable while there are events; -1 without a kernel queue."""
        return -1 if self._queue is None else self._queue.fileno()

    def read(self) -> set[Reason]:
        """Return the reasons of the pending events."""
        reasons: set[Reason] = set()
        unsettled = False
        for event in self._queue.read() if self._queue is not None else ():
            if event.mask & InotifyMask.Q_OVERFLOW:
                log.warning("the kernel's queue of file events overflowed, so everything is checked again")
                reasons |= {rule.reason for rules in self._rules.values() for rule in rules}
                unsettled = True
            unsettled |= self._handle(event, reasons)
        return reasons | self.settle() if unsettled else reasons

    def settle(self) -> set[Reason]:
        """Adapt the watches to the current directories; return the reasons of changes that no event reported.

        This is cheap if nothing changed: one stat for each directory. It detects a mount over a directory, a rename of
        a parent, and changes in directories that the kernel does not watch.
        """
        reasons: set[Reason] = set()
        for directory, rules in self._rules.items():
            before = self._held.get(directory)
            now = self._settle_directory(directory, before)
            if before is not None and now != before and directory in (before.path, now.path):
                reasons |= {rule.reason for rule in rules}
            self._held[directory] = now
            reasons |= self._poll_directory(directory, rules) if now.watch is None else set()
        self._release({held.watch for held in self._held.values()})
        return reasons

    def close(self) -> None:
        """Stop watching."""
        if self._queue is not None:
            self._queue.close()
            self._queue = None

    # --- the kernel's watches

    def _open_queue(self, open_queue: Callable[[], Inotify]) -> Inotify | None:
        try:
            return open_queue()
        except OSError as error:
            self._warn_once("fs.inotify.max_user_instances", error)
            return None

    def _settle_directory(self, directory: str, before: _WatchedDirectory | None) -> _WatchedDirectory:
        """Return the watched directory for a rule's directory now; `before` if it is still correct."""
        path, identity = _nearest(directory)
        if before is not None and before.watch is not None and (path, identity) == (before.path, before.identity):
            return before
        placed = _WatchedDirectory(path, identity, self._watch(directory, path))
        for _ in range(_TRIES):
            path, identity = _nearest(directory)
            if (path, identity) == (placed.path, placed.identity):
                break
            placed = _WatchedDirectory(path, identity, self._watch(directory, path))
        if placed.watch is not None:
            self._polled_signatures.pop(directory, None)
        return placed

    def _watch(self, directory: str, path: str) -> int | None:
        if self._queue is None:
            return None
        touched = any(rule.touched for rule in self._rules[directory])
        mask = (_CONTENT | (_TOUCH if touched else 0) if path == directory else _ABOVE) | _ITSELF
        try:
            watch = self._queue.add(path, mask)
        except OSError as error:
            if error.errno not in _ABSENT:
                self._warn_once("fs.inotify.max_user_watches", error)
            return None
        self._watching.add(watch)
        return watch

    def _handle(self, event: InotifyEvent, reasons: set[Reason]) -> bool:
        """Add the reasons of one event; return whether directories appeared or disappeared."""
        unsettled = False
        for directory, held in self._held.items():
            if held.watch != event.watch:
                continue
            if event.mask & _REMOVED:
                # a successor may reuse the inode, and the directory would look unchanged
                self._held[directory] = held._replace(identity=None)
                unsettled = True
            elif held.path != directory:
                unsettled = True
            else:
                reasons |= {rule.reason for rule in self._rules[directory] if rule.matches(event.name)}
        return unsettled

    def _release(self, active: set[int | None]) -> None:
        """Remove the watches that no rule needs any longer."""
        for watch in self._watching - active:
            if self._queue is not None:
                self._queue.remove(watch)
        self._watching &= active

    # --- directories that the kernel does not watch

    def _poll_directory(self, directory: str, rules: list[WatchRule]) -> set[Reason]:
        before = self._polled_signatures.get(directory)
        now = {rule: _signatures(directory, rule) for rule in rules}
        self._polled_signatures[directory] = now
        return {rule.reason for rule in rules if before is not None and before[rule] != now[rule]}

    def _warn_once(self, setting: str, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "%s: the kernel cannot watch it: %s; its files are polled instead (%s may be too low)",
                error.filename,
                error.strerror,
                setting,
            )


def _nearest(directory: str) -> tuple[str, tuple[int, int]]:
    """Return a directory or its nearest existing parent, with its device and inode."""
    while True:
        try:
            status = os.stat(directory)
            if stat.S_ISDIR(status.st_mode) or directory == os.sep:
                return directory, (status.st_dev, status.st_ino)
        except OSError:
            if directory == os.sep:
                raise
        directory = os.path.dirname(directory)


def _signatures(directory: str, rule: WatchRule) -> frozenset[object]:
    """Return a value that differs when a file of a rule changes."""
    signatures: set[object] = set()
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if rule.matches(entry.name):
                    status = entry.stat(follow_symlinks=False)
                    signatures.add((entry.name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    except OSError:
        signatures.add(None)  # removed during the listing
    return frozenset(signatures)
