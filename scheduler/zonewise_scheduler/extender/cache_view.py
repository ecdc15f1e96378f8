"""The view of the extender's cache for the metrics and `/debug/state`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Lock

    from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
    from zonewise_scheduler.extender.placing.placer import Placer
    from zonewise_scheduler.extender.state.cluster_state import ClusterState
    from zonewise_scheduler.extender.tables.zone_amounts import ZoneAmount
    from zonewise_scheduler.nodes.assumed.types import LedgerCounters


class CacheView:
    """See the module."""

    def __init__(
        self,
        state: ClusterState,
        placer: Placer,
        judging: Lock,
        clock: Callable[[], float],
        fallback: FallbackPolicy,
    ) -> None:
        """Take the parts of a cache, and its judging lock."""
        self._state = state
        self._placer = placer
        self._judging = judging
        self._clock = clock
        self._fallback = fallback

    def counters(self) -> LedgerCounters:
        """Return the ledger's counters."""
        return self._state.counters()

    def node_counts(self) -> dict[str, int]:
        """Return the number of nodes for each state of their reports."""
        with self._judging:
            self._placer.refresh()
            names = list(self._placer.table)
        state = self._state
        with state.lock:
            now = self._clock()
            reported = [name for name in names if name in state.infos]
            stale = sum(state.ledger.is_stale(name, now, self._fallback.stale_after) for name in reported)
            return {"reported": len(reported) - stale, "stale": stale, "unreported": len(state.infos) - len(reported)}

    def free_by_zone(self) -> dict[str, ZoneAmount]:
        """Return the free amounts of all nodes by resource; amounts that assumed pods hold are not free."""
        with self._judging:
            self._placer.refresh()
            return self._placer.table.free_by_zone()

    def dump(self) -> dict[str, object]:
        """Return the cache's view of each node, as JSON for `/debug/state`."""
        with self._judging:
            self._placer.refresh()
            reported = set(self._placer.table)
        with self._state.lock:
            names = sorted({*self._state.infos, *reported})
        counters = self.counters()
        # deprecated in 0.1.0, dropped in the next minor version
        old_names = {
            "promised": counters.assumed_total, "withdrawn": counters.forgotten, "refused": counters.rejected,
            "missed": counters.mispredicted, "in_flight": counters.assumed,
        }  # fmt: skip
        # lock again for each node: kube-scheduler's calls must not wait for all nodes
        nodes = {name: self._state.dump_node(name) for name in names}
        return {"counters": counters._asdict() | old_names, "nodes": nodes}
