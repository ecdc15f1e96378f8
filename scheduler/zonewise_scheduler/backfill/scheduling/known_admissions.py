"""Starts of workloads in a sample path without a nomination: they get what an earlier workload of their shape got.

Most starts of a sample path repeat an earlier one of the same queue and scheduling shape. If the flavor of the earlier
one has enough quota again, the nomination would return it. The sample path then leaves out the nomination.

Invariant: a start without a nomination is the start that the nomination would lead to.

Proof.
1. Workloads with equal shapes get equal assignments in queues with equal flavors, if the same flavor is selected.
   Only quota decides which one, and all resources get the same one. Else flavor_alternatives() returns None.
2. A flavor that is no alternative never fits, nor is it preferred to one that fits.
3. A flavor with enough quota ends the scan, unless the scan looks for one without borrowing. If the queue may preempt,
   an earlier flavor may end the scan, so the first alternative must have enough quota.
4. A head that is alone in its cycle loses nothing to another one. So it starts unless it delays a reservation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.reservations.quota_profile import usage_requests
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.queue.heads import admits_namespace

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from zonewise_scheduler.backfill.scheduling.pass_state import PassState
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Admission
    from zonewise_scheduler.quota.cycle.entry import Decision
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives, FlavorRequests
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot

    _Admissions = dict[frozenset[tuple[FlavorResource, int]], Admission]
    """The first admission with each set of requests for one flavor."""


class _KnownShape(NamedTuple):
    """The alternatives of a shape in a queue, and the admissions with them."""

    alternatives: FlavorAlternatives
    admissions: _Admissions


class KnownAdmissions:
    """The first admission in a sample path of each shape with each flavor."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[str, Hashable], _KnownShape] = {}
        """By queue and scheduling shape."""
        self._flavors: dict[str, Hashable] = {}
        """The flavors and admission checks of each queue."""
        self._admissions: dict[tuple[Hashable, Hashable], _Admissions] = {}
        """By flavors and scheduling shape."""

    def learn(self, pass_state: PassState, decisions: Iterable[Decision]) -> None:
        """Keep the admissions of workloads without a topology that needed one flavor."""
        for decision in decisions:
            head, admission = decision.head, decision.workload.admission
            if decision.status != "admitted" or admission is None or head.workload.admission is not None:
                continue
            if all(
                pod_set.topology_assignment is None and not pod_set.delayed_topology_request
                for pod_set in admission.pod_sets
            ):
                requests = frozenset(usage_requests(decision.workload.usage.items()))
                self._known_shape(pass_state, head).admissions.setdefault(requests, admission)

    def start(self, pass_state: PassState, name: str, key: str) -> bool:
        """Start a queue's head if the outcome of its nomination is known; return whether it started."""
        state = pass_state.state
        heap, queue = state.pending_queues[name].heap, state.snapshot.cluster_queues[name]
        workload = heap.get(key)
        if workload is None or not heap.lacks_only_quota(key):
            return False
        admission = _admission(queue, self._known_shape(pass_state, Head(workload, name)))
        if admission is None or not admits_namespace(queue.spec, workload.namespace, state.namespaces):
            return False
        admitted = workload.admitted(admission._replace(cluster_queue=name, reserved_at=state.now))
        state.reservations.begin_cycle(state, state.now)
        if state.reservations.delayed_reservation(admitted, ()):
            return False
        state.reservations.record_start(admitted, ())
        state.snapshot.add_workload(admitted)
        heap.delete(key)
        pass_state.record_admission(admitted)
        pass_state.headroom.invalidate()
        return True

    def _known_shape(self, pass_state: PassState, head: Head) -> _KnownShape:
        """Return what is known about the shape of a head; queues with the same flavors share the admissions."""
        shape = head.workload.scheduling_shape
        known = self._shapes.get((head.cluster_queue, shape))
        if known is None:
            flavors = self._flavors.get(head.cluster_queue)
            if flavors is None:
                spec = pass_state.state.snapshot.cluster_queues[head.cluster_queue].spec
                groups = tuple((group.flavor_names, group.covered_resources) for group in spec.resource_groups)
                flavors = self._flavors[head.cluster_queue] = groups, spec.admission_checks
            alternatives = pass_state.headroom.alternatives(head)
            known = _KnownShape(alternatives or (), self._admissions.setdefault((flavors, shape), {}))
            self._shapes[head.cluster_queue, shape] = known
        return known


def _admission(queue: ClusterQueueSnapshot, known: _KnownShape) -> Admission | None:
    """Return the admission that a nomination would lead to now; None if it is not known."""
    for requests in known.alternatives if known.admissions else ():
        if all(amount <= queue.available(key) for key, amount in requests):
            ends_scan = len(known.alternatives) == 1 or not _continues_scan(queue, requests)
            return known.admissions.get(frozenset(requests)) if ends_scan else None
        if queue.spec.preemption.preempts:
            return None
    return None


def _continues_scan(queue: ClusterQueueSnapshot, requests: FlavorRequests) -> bool:
    """Return whether the scan looks for a flavor without borrowing although this one has enough quota."""
    looks_on = queue.spec.flavor_fungibility.when_can_borrow == "TryNextFlavor" and queue.parent is not None
    return looks_on and any(queue.borrowing_with(key, amount) for key, amount in requests)
