"""Slurm's notation for many names: "node[001-128,200],login1" (slurm src/common/hostlist.c)."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_NAMES = 1 << 18
"""Maximum number of names, as in hostlist.c MAX_RANGES."""
_ELEMENT = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})([^0-9]*)")


def expand(text: str) -> list[str]:
    """Return the names in order. Raises ValueError, naming the part that is wrong."""
    names: list[str] = []
    start = 0
    while start < len(text):
        match = _ELEMENT.match(text, start)
        end = match.end() if match else start
        if match is None or text[end : end + 1] not in ("", ",") or end + 1 == len(text):
            raise ValueError(f"{text[start : start + 40]!r} is not a list of names, such as node[1-4]")
        names += _expanded(match[0], MAX_NAMES - len(names))
        start = end + 1
    return names


def _expanded(element: str, most: int) -> list[str]:
    parts = [_numbers(match[1], most) if match[2] is None else [match[2]] for match in _PART.finditer(element)]
    total = 1
    for part in parts:
        total *= len(part)
    if total > most:
        raise ValueError(f"{element[:40]!r} expands to more than {MAX_NAMES} names")
    return ["".join(words) for words in product(*parts)]


def _numbers(text: str, most: int) -> list[str]:
    """Return the numbers in brackets; a first number with leading zeros sets the width."""
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part[:40]!r} is not a range of numbers, such as 1-4")
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low:
            raise ValueError(f"{part!r} is a range that ends before it begins")
        if len(numbers) + high - low + 1 > most:
            raise ValueError(f"{part!r} expands to more than {MAX_NAMES} names")
        numbers += [str(number).rjust(len(match[1]), "0") for number in range(low, high + 1)]
    return numbers


def fold(names: Iterable[str]) -> str:
    """Return names in this notation, with the last number of each as a range: "node[1-4]"."""
    plain: list[str] = []
    groups: dict[tuple[str, str], list[str]] = {}
    for name in sorted(set(names)):
        match = _NUMBERED.fullmatch(name)
        if match is None:
            plain.append(name)
        else:
            groups.setdefault((match[1], match[3]), []).append(match[2])
    parts = (_folded(*key, *group) for key, numbers in groups.items() for group in _by_width(numbers))
    return ",".join([*plain, *parts])


def _by_width(numbers: list[str]) -> Iterator[tuple[int, list[int]]]:
    """Yield numbers without a common width as width 1, and those of each width with leading zeros."""
    padded = {len(number) for number in numbers if number.startswith("0") and number != "0"}
    for width in (1, *sorted(padded)):
        group = sorted(int(number) for number in numbers if (len(number) if len(number) in padded else 1) == width)
        if group:
            yield width, group


def _folded(prefix: str, suffix: str, width: int, numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]:0{width}}{suffix}"
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = (f"{low:0{width}}-{high:0{width}}" if low < high else f"{low:0{width}}" for low, high in ranges)
    return f"{prefix}[{','.join(texts)}]{suffix}"
