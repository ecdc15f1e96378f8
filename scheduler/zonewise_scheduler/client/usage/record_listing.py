"""Records one by one, as a listing and as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from zonewise_common.cli.output_format import Listing
from zonewise_common.cli.table import Column, make_table
from zonewise_scheduler.accounting.usage_groups import UNKNOWN_USER
from zonewise_scheduler.client.time_text import format_time, short_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.accounting.run_record import RunRecord

_CSV = ("namespace", "name", "kind", "user", "queue", "clusterQueue", "priority", "pods", "created", "queued",
        "started", "ended", "walltime", "evictions", "outcome", "reason", "uid")  # fmt: skip
"""The columns of CSV. Times are seconds since 1970."""


def list_records(records: Sequence[RunRecord], notes: Sequence[str]) -> Listing:
    """Return the listing of records."""
    columns = (
        Column("NAMESPACE"),
        Column("JOB", shorten="middle"),
        Column("KIND", wide=True),
        Column("USER", shorten="end"),
        Column("QUEUE"),
        Column("CLUSTERQUEUE", wide=True),
        Column("PRIORITY", right=True, wide=True),
        Column("PODS", right=True),
        Column("QUEUED", wide=True),
        Column("STARTED"),
        Column("ENDED", wide=True),
        Column("WAITED", right=True),
        Column("RUN", right=True),
        Column("LIMIT", right=True),
        Column("STATE"),
        Column("REASON", shorten="end"),
    )
    rows = [
        [
            each.namespace,
            each.name,
            each.kind,
            each.user or UNKNOWN_USER,
            each.queue,
            each.cluster_queue,
            str(each.priority),
            str(each.pods),
            format_time(each.queued) or "",
            format_time(each.started) or "",
            format_time(each.ended) or "",
            short_duration(each.wait),
            short_duration(None if each.started is None else each.run_time),
            short_duration(each.walltime),
            each.outcome,
            each.reason,
        ]
        for each in records
    ]
    document = [msgspec.to_builtins(each) for each in records]
    return Listing([make_table(columns, rows)], document, notes=notes, empty="no records are selected")


def record_rows(records: Sequence[RunRecord]) -> list[list[str]]:
    """Return the rows of CSV, the names of the columns first; "": unknown."""
    return [list(_CSV), *(_row(each) for each in records)]


def _row(record: RunRecord) -> list[str]:
    values: dict[str, Any] = {**msgspec.to_builtins(record), "pods": record.pods}
    return ["" if values[name] is None else str(values[name]) for name in _CSV]
