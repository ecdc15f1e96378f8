"""Writes the API's TopologyAssignment, in which domains with common values share a slice (KEP-2724).

apis/kueue/v1beta2/workload_types.go TopologyAssignment; pkg/util/tas/tas_assignment.go V1Beta2From. The assignment of a
large gang must fit into an object of 1.5 MB, so the smaller of two encodings is written. One has a single slice. The
other has a slice for each run of domains whose lowest values differ only after the last "-".
"""

from __future__ import annotations

import json
from itertools import groupby, takewhile
from operator import eq
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.quota.topology.types import TopologyAssignment, TopologyDomainAssignment

Json = dict[str, Any]

MAX_SLICES = 1000
MAX_DOMAINS = 100_000
"""Maximum number of domains in a slice, as that of its values (apis/kueue/v1beta2/workload_types.go)."""


def write_topology_assignment(assignment: TopologyAssignment) -> Json:
    """Return the assignment in the API's form, with its domains in order."""
    whole = _slices(assignment, [assignment.domains])
    runs = [tuple(run) for _, run in groupby(assignment.domains, _stem)]
    if 1 < len(runs) <= MAX_SLICES:
        parted = _slices(assignment, runs)
        if len(parted) <= MAX_SLICES and _size(parted) < _size(whole):
            whole = parted
    return {"levels": list(assignment.levels), "slices": whole}


def _stem(domain: TopologyDomainAssignment) -> str:
    return domain.values[-1].rpartition("-")[0]


def _size(slices: list[Json]) -> int:
    return len(json.dumps(slices, separators=(",", ":")))


def _slices(assignment: TopologyAssignment, runs: Sequence[Sequence[TopologyDomainAssignment]]) -> list[Json]:
    return [_slice(assignment, chunk) for run in runs for chunk in _chunks(run)]


def _chunks(run: Sequence[TopologyDomainAssignment]) -> Iterator[Sequence[TopologyDomainAssignment]]:
    for start in range(0, len(run), MAX_DOMAINS):
        yield run[start : start + MAX_DOMAINS]


def _slice(assignment: TopologyAssignment, domains: Sequence[TopologyDomainAssignment]) -> Json:
    counts = [domain.pods for domain in domains]
    count, *other_counts = set(counts)
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [
            _level_values([domain.values[level] for domain in domains]) for level in range(len(assignment.levels))
        ],
        "podCounts": {"individual": counts} if other_counts else {"universal": count},
    }


def _level_values(values: Sequence[str]) -> Json:
    """Return the values of one level: one for all, or the parts that differ between a common prefix and suffix."""
    value, *other_values = set(values)
    if not other_values:
        return {"universal": value}
    prefix = _common_prefix(values)
    suffix = _common_prefix([value[len(prefix) :][::-1] for value in values])[::-1]
    individual: Json = {"roots": [value[len(prefix) : len(value) - len(suffix)] for value in values]}
    individual |= {"prefix": prefix} if prefix else {}
    individual |= {"suffix": suffix} if suffix else {}
    return {"individual": individual}


def _common_prefix(values: Sequence[str]) -> str:
    """Return the common prefix of texts: that of the first and the last text in sorted order."""
    first, last = min(values), max(values)
    length = sum(takewhile(bool, map(eq, first, last)))
    return first[:length]
