"""Which records a report selects: by the time of their end, and by user, outcome, job and namespace."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.accounting.usage_groups import UNKNOWN_USER

if TYPE_CHECKING:
    from zonewise_scheduler.accounting.run_record import RunRecord


class RecordSelection(NamedTuple):
    """A selection; an empty set selects all."""

    since: float = -inf
    """Earliest end, seconds since 1970."""
    until: float = inf
    """Time before which the selected runs end."""
    users: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    def has(self, record: RunRecord) -> bool:
        """Return whether a record is selected."""
        return (
            self.since <= record.ended < self.until
            and (not self.users or (record.user or UNKNOWN_USER) in self.users)
            and (not self.outcomes or record.outcome in self.outcomes)
            and (not self.jobs or record.name in self.jobs)
            and (not self.namespaces or record.namespace in self.namespaces)
        )
