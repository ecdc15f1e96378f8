"""The policy that decides which pods may be bound to a node whose zones are unknown."""

from __future__ import annotations

from typing import NamedTuple

ALLOW, ALLOW_UNALIGNED, DENY = "allow", "allow-unaligned", "deny"
"""Allow every pod; allow pods that no kubelet aligns and pods of DaemonSets; allow no pod."""


class FallbackPolicy(NamedTuple):
    """The policies for nodes without a report and with a stale one: ALLOW, ALLOW_UNALIGNED or DENY."""

    unreported: str = ALLOW_UNALIGNED
    stale: str = ALLOW_UNALIGNED
    stale_after: float = 60.0
    """Seconds; a report is stale once a pod has run this long without being in it."""
    watch_stale_after: float = 30.0
    """Seconds; all reports are stale once nodes, reports or pods have not been known to be current for this long."""
