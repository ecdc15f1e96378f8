"""Arrays with one entry for each set of zones, for nodes with too many zones to list every set.

The kubelet evaluates every set of a resource's zones. For up to MAX_LISTED_ZONES zones, the managers of this package
list the sets. For up to MAX_HINTED_ZONES zones, they use these arrays, with the same result. For more zones, no verdict
is computed: the kubelet itself takes minutes to days for one pod.

A set is an index, with bit i for the zone at position i.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from zonewise_scheduler.admission.errors import UNKNOWN_PREFIX, AdmissionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Integers = NDArray[np.int64]

MAX_LISTED_ZONES = 8
"""The kubelet's default limit (topology_manager.go defaultMaxAllowableNUMANodes)."""
MAX_HINTED_ZONES = 16
"""Maximum number of zones for which hints are computed, for one resource or for several together."""


def check_zone_count(count: int, resource: str) -> None:
    """Raise AdmissionError with an empty reason if there are more zones than MAX_HINTED_ZONES."""
    if count > MAX_HINTED_ZONES:
        message = f"{UNKNOWN_PREFIX}too many zones: hints of {resource} are made of 2^{count} sets of zones"
        raise AdmissionError("", f"{message}, and more than 2^{MAX_HINTED_ZONES} are not computed", resource)


def sums(values: Sequence[int], dtype: np.dtype[Any] | type[Any] = np.int64) -> NDArray[Any]:
    """Return, for each set, the sum of the values of its zones."""
    result = np.zeros(1 << len(values), dtype)
    for position, value in enumerate(values):
        np.add(result[: 1 << position], value, out=result[1 << position : 2 << position])
    return result


def suffice(values: Sequence[int], required: int) -> Bools:
    """Return, for each set, whether the sum of its zones' values is at least `required`; exact for any integers."""
    # values above `required` count as `required`, which changes no comparison
    capped = [min(value, required) for value in values]
    # the narrowest signed type that can hold every sum and `required`; objects if 64 bits cannot
    return sums(capped, np.min_scalar_type(~max(sum(map(abs, capped)), required))) >= required


def contain(zone_count: int, required: int) -> Bools:
    """Return, for each set, whether it contains the set `required`."""
    return np.arange(1 << zone_count) & required == required


def meet(zone_count: int, others: int) -> Bools:
    """Return, for each set, whether it has a zone in common with the set `others`."""
    return (np.arange(1 << zone_count) & others).astype(np.bool_)


@lru_cache(maxsize=MAX_HINTED_ZONES + 1)
def sizes(zone_count: int) -> Integers:
    """Return, for each set, the number of its zones; callers must not change the array."""
    return np.bitwise_count(np.arange(1 << zone_count)).astype(np.int64)


def pair_sums(table: Sequence[Sequence[int]]) -> Integers:
    """Return, for each set, the sum of a table over all pairs of its zones, including each zone with itself."""
    result = np.zeros(1 << len(table), np.int64)
    for position, row in enumerate(table):
        without = slice(0, 1 << position)
        mixed = sums([row[other] + table[other][position] for other in range(position)])
        result[1 << position : 2 << position] = result[without] + mixed + row[position]
    return result


def to_set(zones: Sequence[int], index: int) -> int:
    """Return the set at an index as an integer with bit i for zone i."""
    return sum(1 << zone for position, zone in enumerate(zones) if index >> position & 1)


def to_index(zones: Sequence[int], zone_set: int) -> int:
    """Return the index of a set; its zones that are not in `zones` are ignored."""
    return sum(1 << position for position, zone in enumerate(zones) if zone_set >> zone & 1)
