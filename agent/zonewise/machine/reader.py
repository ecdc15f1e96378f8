"""Tolerant, typed reading: returns the value in a file, or None and a problem.

The kernel's attributes are text that a driver printed. Numbers may be missing, negative, "(null)" or truncated, masks
may be wide, and any read may fail with any error. This module has the rules for all of that. Collectors only name the
file, the fact in it, and the rule.
"""

from __future__ import annotations

import errno
import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from zonewise.machine.model.problem import Problem, Source
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zonewise.machine.files import Files

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
_NO_VALUE = frozenset({errno.EINVAL, errno.ENODATA, errno.EOPNOTSUPP, errno.ENODEV, errno.ENXIO, errno.EAGAIN})
"""Errors of drivers for an attribute that has no value now; they are not damage.

Examples: the speed of a link that is down, an unused GID, a counter that the hardware lacks.
"""

_EMPTY_TEXTS = frozenset({"", "(null)", "<unknown>", "N/A"})
_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MAX_SIZE = (1 << 32) - 1  # bytes; the kernel has an unsigned int for the size of a cache: include/linux/cacheinfo.h
_MAX_DIGITS = 20  # an unsigned 64-bit number has at most 20 decimal digits; a longer one is damage
_ATTRIBUTES = "sys/"  # below this path every attribute ends in a newline (fs/sysfs/file.c, sysfs_emit), ...
_FIRMWARE = "sys/firmware/"  # ... except the firmware's own binary data
_WHOLE_LINE_SAMPLES = tuple(
    f"sys/devices/system/{name}"
    for name in (
        "cpu/possible",
        "cpu/online",
        "cpu/present",
        "node/online",
        "node/possible",
        "cpu/kernel_max",
        "cpu/cpu0/topology/core_id",
    )
)
_NATURAL = re.compile(r"([0-9]+)")

T = TypeVar("T")


class Reader:
    """Reads the files of one machine for one scan, and gathers problems and, with `explain`, the source of each fact.

    Paths are relative to the root, without a leading slash. `fact` names the fact that is read, as a path into the
    machine ("zones.1.memory"), and `rule` is its derivation; both serve only `zonewise show --explain`.
    """

    def __init__(self, files: Files, *, explain: bool = False, known: Mapping[str, bytes] | None = None) -> None:
        """Read from `files`; `known` has the contents of files that this scan has already read, by path."""
        self.files = files
        self._known = known or {}
        self.problems: list[Problem] = []
        self.sources: dict[str, Source] | None = {} if explain else None
        self._whole_lines: bool | None = None

    # --- names and links

    def names(self, path: str) -> list[str]:
        """Return the names in a directory in natural order (cpu2 before cpu10); none if it cannot be listed."""
        try:
            return natural(self.files.names(path))
        except OSError as error:
            if error.errno not in _ABSENT:
                self.problem(path, f"cannot be listed: {error.strerror}")
        return []

    def has(self, path: str) -> bool:
        """Return whether a directory exists."""
        try:
            self.files.names(path)
        except OSError:
            return False
        return True

    def link(self, path: str) -> str | None:
        """Return the path that a symbolic link leads to in one step, relative to the root; None if it is not a link."""
        try:
            target = self.files.link(path)
        except OSError as error:
            if error.errno not in _ABSENT and error.errno != errno.EINVAL:
                self.problem(path, f"cannot be followed: {error.strerror}")
            return None
        return posixpath.normpath(posixpath.join("/", posixpath.dirname(path), target)).lstrip("/")

    # --- problems, and the sources of facts

    def problem(self, path: str, problem: str, used: str | None = None) -> None:
        """Record that something in the source is damaged or contradictory, and the value used instead."""
        self.problems.append(Problem(f"/{path}", problem, used))

    def note_used(self, first: int, used: str, end: int | None = None) -> None:
        """Record the value used instead for the problems from number `first` up to `end` that do not have one."""
        for number in range(first, len(self.problems) if end is None else end):
            if self.problems[number].used is None:
                self.problems[number] = self.problems[number]._replace(used=used)

    def source(self, fact: str, path: str, value: object, rule: str) -> None:
        """Record the source of a fact: the file, the value read, the rule. Costs nothing unless sources are
        recorded.
        """
        if self.sources is not None and fact:
            self.sources[fact] = Source(f"/{path}", None if value is None else str(value), rule)

    # --- contents of files

    def raw(self, path: str, *, needed: str = "") -> bytes | None:
        """Return a file's bytes; None if it is absent or cannot be read.

        `needed` names the fact that is lost without the file, and makes the file's absence a problem.
        """
        try:
            return self._known.get(path) or self.files.read(path)
        except OSError as error:
            silent = _ABSENT | _NO_VALUE
            if needed and error.errno in silent:
                self.problem(path, f"{error.strerror}: {needed} is unknown")
            elif error.errno not in silent:
                self.problem(path, f"cannot be read: {error.strerror}", f"{needed} is unknown" if needed else None)
        return None

    def text(self, path: str, *, fact: str = "", rule: str = "as the kernel prints it", needed: str = "") -> str | None:
        """Return a file's text without its line end; None if it is absent, unreadable or empty."""
        content = self.raw(path, needed=needed)
        if content is None:
            return None
        text = _decode(content)
        if text in _EMPTY_TEXTS:
            if needed or (not content and path.startswith(_ATTRIBUTES)):
                self.problem(
                    path, f"contains {text!r}" if text else "is empty", f"{needed} is unknown" if needed else None
                )
            return None
        if not text.isprintable() and "\n" not in text and "\t" not in text:
            self.problem(path, f"is not text: {_shown(text)}")
        elif self._is_cut(path, content):
            self.problem(path, f"is truncated: {_shown(text)} has no newline")
        self.source(fact, path, text, rule)
        return text

    def integer(
        self,
        path: str,
        *,
        fact: str = "",
        rule: str = "the number in the file",
        needed: str = "",
        base: int = 10,
    ) -> int | None:
        """Return the integer in a file, in base `base` (16 allows an 0x in front)."""
        return self._parsed(path, lambda text: parse_integer(text, base), "a number", fact, rule, needed)

    def size(self, path: str, *, fact: str = "", rule: str = "the size in the file", needed: str = "") -> int | None:
        """Return the size of a cache in bytes, from a text such as "32K"."""
        return self._parsed(path, parse_size, "a size", fact, rule, needed)

    def cpus(
        self, path: str, *, fact: str = "", rule: str = "the CPU list in the file", needed: str = ""
    ) -> CpuSet | None:
        """Return the CPU set in a file of the kernel's list notation; an empty file is an empty set."""
        return self._parsed(path, CpuSet.parse_list, "a CPU list", fact, rule, needed, empty=CpuSet())

    def mask(
        self, path: str, *, fact: str = "", rule: str = "the CPU mask in the file", needed: str = ""
    ) -> CpuSet | None:
        """Return the CPU set in a file of the kernel's mask notation."""
        return self._parsed(path, CpuSet.parse_mask, "a CPU mask", fact, rule, needed)

    def _parsed(
        self,
        path: str,
        parse: Callable[[str], T],
        what: str,
        fact: str,
        rule: str,
        needed: str,
        empty: T | None = None,
    ) -> T | None:
        content = self.raw(path, needed=needed)
        if content is None:
            return None
        text = _decode(content)
        lost = f"{needed} is unknown" if needed else None
        if text in _EMPTY_TEXTS:
            # an empty list is "\n"; a file without any byte has lost its content
            if empty is not None and content.strip(b"\0") == b"\n":
                self.source(fact, path, text, rule)
                return empty
            if needed or not content:
                self.problem(path, f"contains {text!r}" if text else "is empty", lost)
            return None
        if self._is_cut(path, content):
            self.problem(path, f"is truncated: {_shown(text)} has no newline", lost)
            return None
        try:
            value = parse(text)
        except ValueError:
            self.problem(path, f"is not {what}: {_shown(text)}", lost)
            return None
        self.source(fact, path, text, rule)
        return value

    def _is_cut(self, path: str, content: bytes) -> bool:
        if content.rstrip(b"\0").endswith(b"\n") or not path.startswith(_ATTRIBUTES) or path.startswith(_FIRMWARE):
            return False
        return self._lines_end()

    def _lines_end(self) -> bool:
        """Return whether the attributes of this tree end in newlines, as the kernel's do and those of some copies do
        not.
        """
        if self._whole_lines is None:
            self._whole_lines = any(self._ends_in_newline(path) for path in _WHOLE_LINE_SAMPLES)
        return self._whole_lines

    def _ends_in_newline(self, path: str) -> bool:
        try:
            return self.files.read(path).rstrip(b"\0").endswith(b"\n")
        except OSError:
            return False


class Pair(NamedTuple):
    """Two files with the same CPU set, as a list and as a mask; old kernels have only the mask."""

    list_name: str
    mask_name: str


def cpu_set(read: Reader, directory: str, pairs: tuple[Pair, ...], *, fact: str = "", rule: str) -> CpuSet | None:
    """Return the first complete CPU set among equivalent files, list before mask, newer name before older."""
    before = len(read.problems)
    for pair in pairs:
        cpus = read.cpus(f"{directory}/{pair.list_name}", fact=fact, rule=rule)
        if cpus is not None:
            return cpus
        cpus = read.mask(f"{directory}/{pair.mask_name}", fact=fact, rule=rule)
        if cpus is not None:
            read.note_used(before, f"/{directory}/{pair.mask_name}")
            return cpus
    return None


def natural(names: list[str]) -> list[str]:
    """Return names in natural order: numbers inside them count as numbers."""
    # splitting by a captured group puts text at even indexes and digits at odd ones, so keys compare part by part
    return sorted(names, key=lambda name: [int(p) if i % 2 else p for i, p in enumerate(_NATURAL.split(name))])


def first_few(names: Sequence[str], most: int) -> str:
    """Return names that fit on one line of a message: separated by commas, and at most `most` of them."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def parse_integer(text: str, base: int = 10) -> int:
    """Return the integer in a kernel attribute; raise ValueError for other text, and for numbers beyond 64 bits."""
    if len(text) > _MAX_DIGITS or not text.isascii() or "_" in text:
        raise ValueError(f"not a 64-bit number: {text[:80]!r}")
    value = int(text, base)
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"not a 64-bit number: {text!r}")
    return value


def parse_size(text: str) -> int:
    """Return the size of a cache in bytes, from a text such as "32K" or "1024 kB"; raise ValueError."""
    digits = text.rstrip("kKMGBib ")
    unit = text[len(digits) :].strip().rstrip("B").rstrip("i").upper()
    value = parse_integer(digits)
    if unit not in _SIZE_UNITS or not 0 <= value * _SIZE_UNITS[unit] <= _MAX_SIZE:
        raise ValueError(f"not a size: {text[:80]!r}")
    return value * _SIZE_UNITS[unit]


def _decode(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace").strip("\0\n ")


def _shown(text: str) -> str:
    """Return a text that fits on one line of a message, truncated if it is long."""
    short = text if len(text) <= 60 else text[:60] + "..."
    return repr(short)
