"""Fields of our own files: numbers, times and distributions, with what is wrong in them told by path and value."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, TypeVar, cast

from zonewise_scheduler.fit.model.fields import FieldError, Json
from zonewise_scheduler.simulate.inputs.draws import KINDS, Draw

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.queue.quota.read.part import Part

T = TypeVar("T")

MOST = 2.0**53
"""Beyond it, seconds are not told apart."""
MOST_PODS = 1 << 26
"""More than any cluster has."""
MOST_JOBS = 3_000_000
"""In one scenario; a larger number is taken for a slip."""


def lacks(part: Part, *names: str) -> bool:
    """Tell of fields that are not there, and must be."""
    missing = [name for name in names if not part.has(name)]
    part.problems += [f"{part.at}{name}: there is none" for name in missing]
    return bool(missing)


def named(part: Part, name: str = "name") -> str:
    """Return a name, which must be there."""
    if not part.has(name):
        lacks(part, name)
        return ""
    text = part.text(name)
    if text == part.given[name] == "":
        part.wrong(name, "not a name")
    return text


def in_spec(part: Part, name: str, read: Callable[[Json], T], default: T) -> T:
    """Return a field that is as in the spec of a pod or a node, by what reads a spec and raises FieldError."""
    part.ignore(name)
    try:
        return read({name: part.given.get(name)})
    except FieldError as error:
        part.problems.append(f"{part.at}{str(error).removeprefix('spec.')}")
        return default


def within(part: Part, name: str, default: int, most: int, least: int = 1) -> int:
    """Return a whole number of a range."""
    value = part.number(name, default)
    if value is None or least <= value <= most:
        return default if value is None else value
    part.wrong(name, f"not from {least} to {most}")
    return default


def real(part: Part, name: str, default: float) -> float:
    """Return a number that is not negative."""
    if not part.has(name):
        return default
    value = _number(part.given[name])
    if value is None:
        part.wrong(name, "not a number from 0 on")
        return default
    return value


def draw(part: Part, name: str, default: float) -> Draw:
    """Return how a number is drawn: a number, or an object with the name of a distribution and its numbers."""
    if not part.has(name):
        return Draw("fixed", (default,))
    value: object = part.given[name]
    fixed = _number(value)
    if fixed is not None:
        return Draw("fixed", (fixed,))
    if isinstance(value, dict) and len(cast("dict[str, object]", value)) == 1:
        [(kind, given)] = cast("dict[str, object]", value).items()
        numbers = [_number(one) for one in cast("list[object]", given if isinstance(given, list) else [given])]
        sound = tuple(one for one in numbers if one is not None)
        if kind in KINDS and len(sound) == len(numbers) and KINDS[kind].takes(sound):
            return Draw(kind, sound)
    part.wrong(name, f"neither a number nor one of {', '.join(one.shape for one in KINDS.values())}")
    return Draw("fixed", (default,))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MOST and isfinite(value) else None
