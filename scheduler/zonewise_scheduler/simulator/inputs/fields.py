"""Fields of job files: limits, and distributions of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from zonewise_common.k8s.fields import non_negative_number
from zonewise_scheduler.simulator.inputs.distributions import DISTRIBUTIONS, Distribution

if TYPE_CHECKING:
    from zonewise_common.k8s.fields import FieldReader

MAX_JOBS = 3_000_000
"""Maximum number of jobs in a scenario; a larger number counts as a mistake."""


def distribution_field(reader: FieldReader, name: str, default: float) -> Distribution:
    """Return a field's distribution; the field is a number, or an object of a distribution's name and numbers."""
    if not reader.has(name):
        return Distribution("fixed", (default,))
    value: object = reader.obj[name]
    constant = non_negative_number(value)
    if constant is not None:
        return Distribution("fixed", (constant,))
    if isinstance(value, dict) and len(cast("dict[str, object]", value)) == 1:
        [(kind, parameters)] = cast("dict[str, object]", value).items()
        listed = cast("list[object]", parameters if isinstance(parameters, list) else [parameters])
        numbers = tuple(number for number in map(non_negative_number, listed) if number is not None)
        if kind in DISTRIBUTIONS and len(numbers) == len(listed) and DISTRIBUTIONS[kind].accepts(numbers):
            return Distribution(kind, numbers)
    reader.report(
        name, f"neither a non-negative number nor one of {', '.join(kind.syntax for kind in DISTRIBUTIONS.values())}"
    )
    return Distribution("fixed", (default,))
