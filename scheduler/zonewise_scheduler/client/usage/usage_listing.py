"""Usage by group, as a listing and as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.cli.output_format import Listing
from zonewise_common.cli.table import Column, make_table
from zonewise_scheduler.client.time_text import short_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.accounting.usage_groups import UsageGroup

_HOUR_NAMES = {"cpu": "CPU", "memory": "GIB", "ephemeral-storage": "DISK GIB"}
_HIDDEN = frozenset({"memory", "ephemeral-storage", "pods"})
"""Resources that only --resource shows."""


def shown_resources(groups: Mapping[tuple[str, ...], UsageGroup]) -> list[str]:
    """Return the resources to show by default: the CPU first, then devices."""
    used = {resource for group in groups.values() for resource in group.hours}
    return sorted(used - _HIDDEN, key=lambda name: (name != "cpu", name))


def usage_document(
    groups: Mapping[tuple[str, ...], UsageGroup], keys: Sequence[str], resources: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the JSON document: an object for each group. Times are in seconds, shares between 0 and 1."""
    return [
        {
            **dict(zip(keys, values, strict=True)),
            "jobs": group.jobs,
            "runs": group.runs,
            "failedShare": _rounded(group.share_of_runs("failed", "timeout")),
            "evictedShare": _rounded(group.share_of_runs("evicted")),
            "meanWait": _rounded(group.mean_wait),
            "medianWait": _rounded(group.wait_percentile(50)),
            "p95Wait": _rounded(group.wait_percentile(95)),
            "walltimeUsed": _rounded(group.walltime_used),
            "resourceHours": {name: _rounded(group.hours.get(name, 0.0)) for name in resources},
        }
        for values, group in groups.items()
    ]


def list_usage(
    groups: Mapping[tuple[str, ...], UsageGroup], keys: Sequence[str], resources: Sequence[str], notes: Sequence[str]
) -> Listing:
    """Return the listing of groups, in the order of the mapping."""
    columns = (
        *(Column(key.upper(), shorten="middle") for key in keys),
        Column("JOBS", right=True),
        Column("RUNS", right=True, wide=True),
        Column("FAILED", right=True),
        Column("EVICTED", right=True),
        *(Column(f"{_HOUR_NAMES.get(name, name)} HOURS", right=True) for name in resources),
        Column("MEAN WAIT", right=True, wide=True),
        Column("MEDIAN WAIT", right=True),
        Column("P95 WAIT", right=True),
        Column("WALLTIME USED", right=True),
    )
    document = usage_document(groups, keys, resources)
    rows = [
        [
            *(each[key] for key in keys),
            str(each["jobs"]),
            str(each["runs"]),
            _percent(each["failedShare"]),
            _percent(each["evictedShare"]),
            *(f"{each['resourceHours'][name]:,.1f}" for name in resources),
            short_duration(each["meanWait"]),
            short_duration(each["medianWait"]),
            short_duration(each["p95Wait"]),
            _percent(each["walltimeUsed"]),
        ]
        for each in document
    ]
    return Listing([make_table(columns, rows)], document, notes=notes, empty="no records are selected")


def usage_rows(document: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of CSV, the names of the columns first; "": unknown."""
    names = [name for name in document[0] if name != "resourceHours"] if document else []
    resources = list(document[0]["resourceHours"]) if document else []
    rows = [
        [*("" if each[name] is None else str(each[name]) for name in names), *map(str, each["resourceHours"].values())]
        for each in document
    ]
    return [[*names, *(f"{name} hours" for name in resources)], *rows] if document else []


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
