"""Fields of our own files: numbers, times and distributions, with what is wrong in them told by path and value."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, TypeVar, cast

from zonewise_common.k8s.fields import FieldError, Json
from zonewise_scheduler.simulator.inputs.distributions import DISTRIBUTIONS, Distribution

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.k8s.field_reader import FieldReader

T = TypeVar("T")

MAX_NUMBER = 2.0**53
"""Beyond it, seconds are not told apart."""
MAX_PODS = 1 << 26
"""More than any cluster has."""
MAX_JOBS = 3_000_000
"""In one scenario; a larger number is taken for a slip."""


def report_missing(part: FieldReader, *names: str) -> bool:
    """Tell of fields that are not there, and must be."""
    missing = [name for name in names if not part.has(name)]
    part.problems += [f"{part.path}{name}: there is none" for name in missing]
    return bool(missing)


def required_name(part: FieldReader, name: str = "name") -> str:
    """Return a name, which must be there."""
    if not part.has(name):
        report_missing(part, name)
        return ""
    text = part.text(name)
    if text == part.obj[name] == "":
        part.report(name, "not a name")
    return text


def spec_field(part: FieldReader, name: str, read: Callable[[Json], T], default: T) -> T:
    """Return a field that is as in the spec of a pod or a node, by what reads a spec and raises FieldError."""
    part.ignore(name)
    try:
        return read({name: part.obj.get(name)})
    except FieldError as error:
        part.problems.append(f"{part.path}{str(error).removeprefix('spec.')}")
        return default


def int_in_range(part: FieldReader, name: str, default: int, maximum: int, minimum: int = 1) -> int:
    """Return a whole number of a range."""
    value = part.number(name, default)
    if value is None or minimum <= value <= maximum:
        return default if value is None else value
    part.report(name, f"not from {minimum} to {maximum}")
    return default


def non_negative(part: FieldReader, name: str, default: float) -> float:
    """Return a number that is not negative."""
    if not part.has(name):
        return default
    value = _number(part.obj[name])
    if value is None:
        part.report(name, "not a number from 0 on")
        return default
    return value


def distribution_field(part: FieldReader, name: str, default: float) -> Distribution:
    """Return how a number is drawn: a number, or an object with the name of a distribution and its numbers."""
    if not part.has(name):
        return Distribution("fixed", (default,))
    value: object = part.obj[name]
    fixed = _number(value)
    if fixed is not None:
        return Distribution("fixed", (fixed,))
    if isinstance(value, dict) and len(cast("dict[str, object]", value)) == 1:
        [(kind, given)] = cast("dict[str, object]", value).items()
        numbers = [_number(one) for one in cast("list[object]", given if isinstance(given, list) else [given])]
        sound = tuple(one for one in numbers if one is not None)
        if kind in DISTRIBUTIONS and len(sound) == len(numbers) and DISTRIBUTIONS[kind].accepts(sound):
            return Distribution(kind, sound)
    part.report(name, f"neither a number nor one of {', '.join(one.syntax for one in DISTRIBUTIONS.values())}")
    return Distribution("fixed", (default,))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_NUMBER and isfinite(value) else None
