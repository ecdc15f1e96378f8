"""Whether a preemptor fits, by quota and by placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.hierarchy.topology_snapshot import (
    EmptyTopologySnapshot,
    PlacementRequest,
    TopologyPlacementFailure,
)
from zonewise_scheduler.quota.preemption.preemption_context import PreemptionContext

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyAssignments


class Hosts(EmptyTopologySnapshot):
    """Topologies with a placement in an empty cluster, and optionally now."""

    def __init__(self, *, free: bool) -> None:
        self._free = free

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        return {} if empty or self._free else TopologyPlacementFailure("main", "any", "it is full")


@pytest.mark.parametrize(
    ("used", "amount", "fits", "without_borrowing"),
    [
        (0, 4, True, True),
        (0, 6, True, False),
        (0, 7, False, False),
        (4, 2, True, False),
        (4, 3, False, False),
        (8, 1, False, False),
        (8, 0, True, False),  # an empty request fits, although usage exceeds the quota
    ],
)
@pytest.mark.parametrize(("places", "free"), [(False, False), (True, True), (True, False)])
def test_a_preemptor_fits_if_it_has_quota_and_a_placement_now(
    used: int, amount: int, *, fits: bool, without_borrowing: bool, places: bool, free: bool
) -> None:
    """Its queue has four CPUs and can borrow two. Pods that request no placement need none."""
    snapshot = Snapshot([cpu_queue("q", 4), cpu_queue("lender", 2)], tas_snapshot=Hosts(free=free))
    if used:
        snapshot.add_workload(running_workload("runs", "q", CPU, used))
    new, queue = pending_workload("new", amount), snapshot.cluster_queues["q"]
    requests = {"any": [PlacementRequest(new.pod_sets[0], 1, "any")]} if places else {}
    context = PreemptionContext(snapshot, new, queue, {CPU: amount}, frozenset([CPU]), QuotaSettings(), requests)
    has_placement = free or not places
    assert context.workload_fits(allow_borrowing=True) == (fits and has_placement)
    assert context.workload_fits(allow_borrowing=False) == (without_borrowing and has_placement)
