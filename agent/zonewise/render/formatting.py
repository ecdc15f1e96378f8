"""Formats numbers and names for people."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar, cast

from zonewise.machine.reader import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise.machine.model.cpu import Cache
    from zonewise_common.k8s.cpuset import CpuSet

T = TypeVar("T")

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_TRADE_MARKS = re.compile(r"\((?:R|TM|C)\)|®|™|\bCPU\b|\bProcessor\b|\b\d+-Core\b|@.*$", re.IGNORECASE)
_NUMBERS = re.compile(r"([0-9]+)")
_LINK_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""Generation of PCI Express by GT/s per lane, as listed in the kernel's pci_speed_string()."""
_CACHE_LETTERS = {"Data": "d", "Instruction": "i"}
_STRIDED_RUNS = 5  # shorter progressions are about as short when written out


def format_bytes(count: int) -> str:
    """Format bytes with the largest fitting binary unit: exact if two decimals suffice, otherwise three digits."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    digits = 2 if (value * 100).is_integer() or value < 10 else 1 if value < 99.95 else 0
    text = f"{value:.{digits}f}"
    if text == "1024" and unit < len(_UNITS) - 1:
        text, unit = "1", unit + 1
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {_UNITS[unit]}"


def format_count(number: int, noun: str) -> str:
    """Format a count: "1 core", "2 cores"."""
    return f"{number} {noun if number == 1 else noun + 's'}"


def format_cpu_list(cpus: CpuSet) -> str:
    """Format a CPU set as the kernel does, but shorten evenly spaced equal runs to "0,2,..,62" or "0-1,..,60-61"."""
    return _format_runs([(low, high) for low, high in cpus.ranges()])


def format_number_list(numbers: Sequence[int]) -> str:
    """Format ascending numbers as a list of ranges: "0-3,8"."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return _format_runs(runs)


def _format_runs(runs: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    i = 0
    while i < len(runs):
        length = _progression_length(runs, i)
        texts = [str(low) if low == high else f"{low}-{high}" for low, high in runs[i : i + length]]
        parts += [*texts[:2], "..", texts[-1]] if length >= _STRIDED_RUNS else texts
        i += length
    return ",".join(parts)


def _progression_length(runs: list[tuple[int, int]], start: int) -> int:
    """Return how many runs from `start` on have equal lengths and distances; 1 if they are too few to shorten."""
    end = start + 1
    while end < len(runs) and all(
        runs[end][side] - runs[end - 1][side] == runs[start + 1][0] - runs[start][0] for side in (0, 1)
    ):
        end += 1
    return end - start if end - start >= _STRIDED_RUNS else 1


def clean(text: str) -> str:
    """Return a text safe to print on one line: characters that control a terminal or end a line are replaced."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return " ".join(text.split())


def clean_all(value: T) -> T:
    """Return a text, or nested tuples that contain texts, with every text cleaned."""
    if isinstance(value, str):
        return cast("T", clean(value))
    if not isinstance(value, tuple):
        return value
    held = cast("tuple[object, ...]", value)
    make: Callable[[list[object]], object] = getattr(held, "_make", tuple)  # named tuples are made by _make
    return cast("T", make([clean_all(part) for part in held]))


def model_name(name: str) -> str:
    """Return a processor's marketing name without trade marks and filler words."""
    return " ".join(_TRADE_MARKS.sub(" ", clean(name)).split()) or clean(name)


def format_link_speed(megabits: float) -> str:
    """Format the speed of a network link: "400 Gb/s", "100 Mb/s"."""
    return f"{megabits / 1000:g} Gb/s" if megabits >= 1000 else f"{megabits:g} Mb/s"


def format_pcie_speed(gigatransfers: float) -> str:
    """Format the speed of a PCI Express lane: "Gen5", or "3.0 GT/s" for a speed that belongs to no generation."""
    number = _LINK_GENERATIONS.get(gigatransfers)
    return f"Gen{number}" if number else f"{gigatransfers:g} GT/s"


def format_name_range(names: Sequence[str]) -> str:
    """Format a series of names by its ends: "nvme0n1..nvme3n1", or "sda,..,sdf" if the numbers are not consecutive."""
    if len(names) == 1:
        return names[0]
    return f"{names[0]}..{names[-1]}" if _is_consecutive(names) else f"{names[0]},..,{names[-1]}"


def format_name_list(names: Sequence[str]) -> str:
    """Format names as a complete list: "GPU0..GPU3, GPU6, NVMe0"."""
    rows: list[list[str]] = []
    for name in natural(list(names)):
        if rows and _is_consecutive([*rows[-1], name]):
            rows[-1].append(name)
        else:
            rows.append([name])
    return ", ".join(format_name_range(row) for row in rows)


def _is_consecutive(names: Sequence[str]) -> bool:
    """Return whether names differ only in numbers that increase by one from each name to the next."""
    split = [_NUMBERS.split(name) for name in names]
    if len({tuple(parts[::2]) for parts in split}) > 1:
        return False
    rows = [[int(digits) for digits in parts[1::2]] for parts in split]
    steps = {tuple(b - a for a, b in zip(row, successor, strict=True)) for row, successor in pairwise(rows)}
    return len(steps) == 1 and set(next(iter(steps))) in ({1}, {0, 1})


def cache_name(cache: Cache) -> str:
    """Format a cache: "L1d 32 KiB", "L3 32 MiB"; without its size if unknown."""
    name = f"L{cache.level}{_CACHE_LETTERS.get(cache.type, '')}"
    return name if cache.size is None else f"{name} {format_bytes(cache.size)}"
