"""The reservations of a sample path: like those of reservation.py, but based only on quota.

The exact table copies the snapshot for each reserved start, and moves a copy through time for each reservation that may
move forward. With thirty queues, this takes more than half the time of a sample path, which decides nothing. Instead,
quota is counted over time (quota_profile.py). The approximations are:

- A start is reserved if there is quota at that time. The placement of the pods is checked only when they start.
- A reservation has no flavors; it counts the first of the alternatives that have quota earliest. For a workload with
  several resource groups or several independent pod sets, the first flavor of each resource is the only alternative.
  All pods of such a workload count.
- The victims of reservations count as ended, even if another workload starts instead.
- Ends that are near each other, relative to a grain, are merged.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.reservations.quota_profile import QuotaProfile, UsageSpan, usage_requests
from zonewise_scheduler.backfill.reservations.reservation import ReservationTable
from zonewise_scheduler.backfill.reservations.reservation_bound import reserved_span, running_spans
from zonewise_scheduler.backfill.types import Reservation
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound, preemptible_usage

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from zonewise_scheduler.backfill.reservations.timeline import TimelineSource
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives, FlavorRequests
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


class QuotaReservations(ReservationTable):
    """Reservations alongside running workloads, counted only in quota."""

    def __init__(self, reservations: Iterable[Reservation], now: float, grain: float) -> None:
        """`grain`: ends that differ by at most this fraction of their time from `now` are merged."""
        super().__init__(reservations)
        self._now = now
        self._grain = grain
        self._profile: QuotaProfile | None = None
        """None if it must be recomputed."""
        self._first: Reservation | None = None
        """The reservation with the first start; None if it must be determined."""
        self._by_queue: Mapping[str, Sequence[Reservation]] | None = None
        """Cache of by_queue."""
        self._profile_now = now
        """The time of the last query."""
        self._spans: dict[str, UsageSpan] = {}
        """Usage that the profile counts, by key of the running or reserved workload."""
        self._alternatives: dict[tuple[str, Hashable], FlavorAlternatives] = {}
        """Flavor alternatives by queue and scheduling shape."""
        self._requests: dict[str, FlavorRequests] = {}
        """Requests of the reservations that this table made, by key."""

    def by_queue(self) -> Mapping[str, Sequence[Reservation]]:
        """Return the reservations of each queue, in the order in which they were first made."""
        if self._by_queue is None:
            self._by_queue = super().by_queue()
        return self._by_queue

    # --- the gate

    def begin_cycle(self, source: TimelineSource, now: float) -> None:
        """Prepare the gate for queries at this time."""
        self._now = now
        if self._by_key:
            self._profile_at(source, now)
        elif self._profile is not None:
            self.invalidate()

    def delayed_reservation(self, workload: Workload, victims: Sequence[Workload]) -> str:
        """Return the key of a workload whose reservation this start would delay; "" if there is none."""
        profile, key = self._profile, workload.key
        if profile is None or len(self._by_key) == (key in self._by_key):
            return ""
        first = self._first_reservation()
        if first.workload.key == key:
            first = min((other for other in self._by_key.values() if other is not first), key=_start)
        end, last = self._now + workload.max_duration, key not in self._by_key
        removed = [self._spans[one] for one in (key, *(victim.key for victim in victims)) if one in self._spans]
        for span in removed:
            profile.remove(span)
        last = last and end == inf
        fits = profile.fits(
            _queue(workload), usage_requests(workload.usage.items()), max(first.start, self._now), end, last=last
        )
        for span in removed:
            profile.add(span)
        return "" if fits else first.workload.key

    def latest_end(self, queue: str, key: FlavorResource, amount: int, priority: int | None) -> float:
        """Return the latest end of a workload without a reservation that uses an amount from now on."""
        profile = self._profile
        if profile is None or not self._by_key or amount <= 0:
            return inf
        first_start = max(self._first_reservation().start, self._now)
        if priority is not None:
            amount -= preemptible_usage(profile.snapshot.cluster_queues[queue], priority, key)
        return profile.latest_end(queue, key, first_start, amount)

    def record_start(self, workload: Workload, victims: Sequence[Workload]) -> None:
        """Record that a workload starts, now or once its victims have stopped."""
        for victim in victims:
            self._uncount(victim.key)
        requests = usage_requests(workload.usage.items())
        self._count(workload.key, UsageSpan(_queue(workload), requests, self._now, self._now + workload.max_duration))

    def workload_ended(self, workload: Workload) -> None:
        """Record that a workload with this admission is no longer running."""
        if workload.key not in self._by_key:
            self._uncount(workload.key)

    def invalidate(self) -> None:
        """Record that an unexpected event has changed the future."""
        self._profile = None
        self._spans.clear()
        self._amounts_changed()

    # --- the reservations

    def reserve(self, head: Head, source: TimelineSource, latest: float = inf) -> float | None:
        """Reserve the earliest start of a head that cannot start now, unless that is after `latest`.

        Returns the start; None if there is none. If no start is reserved, the head keeps its earlier reservation.
        """
        key, workload = head.workload.key, head.workload
        profile = self._profile_at(source, self._now)
        earlier = self._spans.get(key)
        self._uncount(key)
        best: tuple[float, FlavorRequests] | None = None
        for requests in self._alternatives_of(head, source):
            start = profile.earliest_start(head.cluster_queue, requests, workload.max_duration, workload.begin_at)
            if start is not None and (best is None or start < best[0]):
                best = start, requests
        start, requests = (None, ()) if best is None else best
        if start is not None and start <= latest:
            self._by_key[key], self._requests[key] = Reservation(workload, head, start), requests
            self._count(key, UsageSpan(head.cluster_queue, requests, start, start + workload.max_duration))
        elif earlier is not None:
            self._count(key, earlier)
        return start

    def record(self, reservation: Reservation) -> None:
        """Add a reservation, or replace the workload's earlier one."""
        key = reservation.workload.key
        self._by_key[key] = reservation
        self._requests.pop(key, None)
        for victim in reservation.victims:
            self._uncount(victim.key)
        self._count(key, self._reserved_span(reservation))

    def remove_started(self, key: str) -> None:
        """Remove the reservation of a workload that has started; record_start has counted its run."""
        self._by_key.pop(key, None)
        self._amounts_changed()

    def release(self, key: str) -> None:
        """Remove the reservation of a workload that no longer waits or can never start."""
        if self._by_key.pop(key, None) is not None:
            self._amounts_changed()
            self._uncount(key)

    def replace_infeasible(self, source: TimelineSource) -> list[Reservation]:
        """Move infeasible reservations to the earliest feasible starts, in the order in which they were made."""
        profile = self._profile_at(source, self._now)
        spans = {key: self._spans[key] for key in self._by_key}
        for key in spans:
            self._uncount(key)
        for key, span in sorted(spans.items(), key=lambda item: item[1].start):
            if profile.fits(span.queue, span.requests, span.start, span.end):
                self._count(key, span)
        infeasible = [reservation for key, reservation in self._by_key.items() if key not in self._spans]
        return [reservation for reservation in infeasible if self.reserve(reservation.head, source) is None]

    def bring_forward(self, source: TimelineSource, now: float) -> None:
        """Move reservations to earlier starts that are now possible, in the order in which they were made."""
        self._now = now
        if not self._by_key:
            return
        profile = self._profile_at(source, now)
        for reservation in list(self._by_key.values()):
            if reservation.start > now and any(
                profile.may_fit_before(reservation.queue, requests, reservation.start)
                for requests in self._alternatives_of(reservation.head, source)
            ):
                self.reserve(reservation.head, source, reservation.start)

    # --- the profile

    def _profile_at(self, source: TimelineSource, now: float) -> QuotaProfile:
        """Return the profile from now on, with all running workloads and all reservations."""
        profile = self._profile
        if self._profile_now != now:
            self._profile_now = now
            self._amounts_changed()
        if profile is not None:
            profile.advance(now)
            return profile
        profile = self._profile = QuotaProfile(source.snapshot, now, self._grain)
        for key, span in running_spans(source, self._by_key.values(), now):
            self._count(key, span)
        for key, reservation in self._by_key.items():
            self._count(key, self._reserved_span(reservation))
        return profile

    def _reserved_span(self, reservation: Reservation) -> UsageSpan:
        span, requests = reserved_span(reservation, self._now), self._requests.get(reservation.workload.key)
        return span if requests is None else span._replace(requests=requests)

    def _alternatives_of(self, head: Head, source: TimelineSource) -> FlavorAlternatives:
        """Return the alternative requests of a workload; see the module."""
        key = head.cluster_queue, head.workload.scheduling_shape
        if key not in self._alternatives:
            alternatives = HeadroomBound(source.snapshot, source.settings).alternatives(head)
            self._alternatives[key] = _first_flavors(source.snapshot, head) if alternatives is None else alternatives
        return self._alternatives[key]

    def _count(self, key: str, span: UsageSpan) -> None:
        """Replace the usage that is counted for this workload."""
        self._uncount(key)
        self._amounts_changed()
        if self._profile is not None:
            self._spans[key] = self._profile.add(span)

    def _uncount(self, key: str) -> None:
        span = self._spans.pop(key, None)
        if span is not None and self._profile is not None:
            self._amounts_changed()
            self._profile.remove(span)

    def _amounts_changed(self) -> None:
        super()._amounts_changed()
        self._first = self._by_queue = None

    def _first_reservation(self) -> Reservation:
        if self._first is None:
            self._first = min(self._by_key.values(), key=_start)
        return self._first


def _start(reservation: Reservation) -> float:
    return reservation.start


def _queue(workload: Workload) -> str:
    """Return the ClusterQueue that a workload is admitted to."""
    return "" if workload.admission is None else workload.admission.cluster_queue


def _first_flavors(snapshot: Snapshot, head: Head) -> FlavorAlternatives:
    """Return the requests of all pods, each resource in its first flavor; () if a resource has no quota."""
    group_by_resource = snapshot.cluster_queues[head.cluster_queue].rg_by_resource
    requests = {resource: amount for resource, amount in head.workload.requests_by_resource.items() if amount}
    if not requests.keys() <= group_by_resource.keys():
        return ()
    flavors = {resource: group_by_resource[resource].flavor_names[0] for resource in requests}
    return (tuple((FlavorResource(flavors[resource], resource), amount) for resource, amount in requests.items()),)
