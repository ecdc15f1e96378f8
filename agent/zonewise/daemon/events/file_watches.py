"""Watches files by their directories, through everything that can happen to a directory.

A file that is replaced by a rename, as the kubelet and ConfigMaps replace theirs, leaves a watch on the file itself
with the old one for ever; a watch on its directory sees the new one. A directory that is not there is waited for in
the nearest one above it that is.
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
_GONE = _ITSELF | InotifyMask.IGNORED | InotifyMask.UNMOUNT

_TRIES = 8  # a path that changes oftener while we look is looked at again at the next settling
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR})


class WatchRule(NamedTuple):
    """Files of one directory, and why to look again when one of them changes."""

    directory: str
    names: tuple[str, ...]
    """Globs."""
    reason: Reason
    touched: bool = False
    """Also when a file is written to that stays open, or its attributes are set."""

    def matches(self, name: str) -> bool:
        """Tell whether a file is meant."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.names)


class _Held(NamedTuple):
    """What stands for a wanted directory at present."""

    path: str
    """It, or the nearest directory above it."""
    identity: tuple[int, int] | None
    """Device and inode; None: known to be no longer right."""
    watch: int | None
    """None: the kernel refused; the directory is looked at from time to time."""


class FileWatches:
    """Watches the files of some rules. Not thread-safe."""

    def __init__(self, rules: Iterable[WatchRule], open_queue: Callable[[], Inotify] = Inotify) -> None:
        self._rules: dict[str, list[WatchRule]] = {}
        for rule in rules:
            self._rules.setdefault(os.path.abspath(rule.directory), []).append(rule)
        self._held: dict[str, _Held] = {}
        self._watching: set[int] = set()
        self._seen: dict[str, dict[WatchRule, frozenset[object]]] = {}
        self._said = False
        self._queue = self._opened(open_queue)
        self.settle()

    @property
    def polled(self) -> bool:
        """Whether a directory is not watched by the kernel, so that settle() must be called from time to time."""
        return bool(self._seen)

    def fileno(self) -> int:
        """Return the descriptor that is readable while there are events; -1 where the kernel gives no queue."""
        return -1 if self._queue is None else self._queue.fileno()

    def read(self) -> set[Reason]:
        """Return the reasons of the events that are there."""
        reasons: set[Reason] = set()
        unsettled = False
        for event in self._queue.read() if self._queue is not None else ():
            if event.mask & InotifyMask.Q_OVERFLOW:
                log.warning("the kernel's queue of file events overflowed: everything is looked at again")
                reasons |= {rule.reason for rules in self._rules.values() for rule in rules}
                unsettled = True
            unsettled |= self._take(event, reasons)
        return reasons | self.settle() if unsettled else reasons

    def settle(self) -> set[Reason]:
        """Make the watches right for the directories as they are now; return the reasons of what was missed.

        Cheap where nothing changed: a look at each directory. What no event tells of is seen here: a mount over a
        directory, a directory above that was renamed, and all of the directories that the kernel does not watch.
        """
        reasons: set[Reason] = set()
        for directory, rules in self._rules.items():
            before = self._held.get(directory)
            now = self._settled(directory, before)
            if before is not None and now != before and directory in (before.path, now.path):
                reasons |= {rule.reason for rule in rules}
            self._held[directory] = now
            reasons |= self._looked(directory, rules) if now.watch is None else set()
        self._release({held.watch for held in self._held.values()})
        return reasons

    def close(self) -> None:
        """Stop watching."""
        if self._queue is not None:
            self._queue.close()
            self._queue = None

    # --- the kernel's watches

    def _opened(self, open_queue: Callable[[], Inotify]) -> Inotify | None:
        try:
            return open_queue()
        except OSError as error:
            self._say("fs.inotify.max_user_instances", error)
            return None

    def _settled(self, directory: str, before: _Held | None) -> _Held:
        """Return what stands for a directory now, watched; `before` where that is still right."""
        path, identity = _nearest(directory)
        if before is not None and before.watch is not None and (path, identity) == (before.path, before.identity):
            return before
        made = _Held(path, identity, self._watched(directory, path))
        for _ in range(_TRIES):
            path, identity = _nearest(directory)
            if (path, identity) == (made.path, made.identity):
                break
            made = _Held(path, identity, self._watched(directory, path))
        if made.watch is not None:
            self._seen.pop(directory, None)
        return made

    def _watched(self, directory: str, path: str) -> int | None:
        if self._queue is None:
            return None
        touched = any(rule.touched for rule in self._rules[directory])
        mask = (_CONTENT | (_TOUCH if touched else 0) if path == directory else _ABOVE) | _ITSELF
        try:
            watch = self._queue.add(path, mask)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                self._say("fs.inotify.max_user_watches", error)
            return None
        self._watching.add(watch)
        return watch

    def _take(self, event: InotifyEvent, reasons: set[Reason]) -> bool:
        """Add the reasons of one event; tell whether directories have come or gone."""
        unsettled = False
        for directory, held in self._held.items():
            if held.watch != event.watch:
                continue
            if event.mask & _GONE:
                # its inode may come back as that of its successor, and nothing would seem to have changed
                self._held[directory] = held._replace(identity=None)
                unsettled = True
            elif held.path != directory:
                unsettled = True
            else:
                reasons |= {rule.reason for rule in self._rules[directory] if rule.matches(event.name)}
        return unsettled

    def _release(self, kept: set[int | None]) -> None:
        """Stop the watches that stand for nothing any more."""
        for watch in self._watching - kept:
            if self._queue is not None:
                self._queue.remove(watch)
        self._watching &= kept

    # --- where the kernel does not watch

    def _looked(self, directory: str, rules: list[WatchRule]) -> set[Reason]:
        before = self._seen.get(directory)
        now = {rule: _signatures(directory, rule) for rule in rules}
        self._seen[directory] = now
        return {rule.reason for rule in rules if before is not None and before[rule] != now[rule]}

    def _say(self, setting: str, error: OSError) -> None:
        if not self._said:
            self._said = True
            log.warning(
                "%s: no watch by the kernel: %s; files are looked at from time to time instead (%s may be too low)",
                error.filename,
                error.strerror,
                setting,
            )


def _nearest(directory: str) -> tuple[str, tuple[int, int]]:
    """Return a directory, or the nearest one above it that is there, with its device and inode."""
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
    """Return what differs when a file of a rule changes."""
    found: set[object] = set()
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if rule.matches(entry.name):
                    status = entry.stat(follow_symlinks=False)
                    found.add((entry.name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    except OSError:
        found.add(None)  # gone while we looked
    return frozenset(found)
