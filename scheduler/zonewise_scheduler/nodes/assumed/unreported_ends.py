"""The states of a node after ends of pods that its report does not show.

Such a pod held its zones when the pods after it arrived, so these got other zones, which they keep after its end.

1. A kubelet receives pods in the order of their bindings, and the ledger observes the bindings in the same order. Only
   events count: the responses to concurrent bindings may arrive in another order.
2. The ledger observes the end of a pod after it happened. A pod that it observes to be bound later arrived later.
3. A pod whose start, or else its end, was observed END_DELAY before an end arrived before this end.
4. A pod between these two arrived before the end or after it. Both are possible, so there may be several states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.nrt.holdings import Holdings
from zonewise_scheduler.admission.node import NO_ZONE
from zonewise_scheduler.nodes.preemption.release import memory_zones, release, without_pods

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.assumed.pod_state import PodState
    from zonewise_scheduler.nodes.assumed.types import Admit

END_DELAY = 1.0
"""Seconds by which a kubelet may write the end of a pod later than a start that happened after it."""
_MAX_STATES = 32
"""Maximum number of states that count, the likeliest first: a bound on the time per event."""


class Ends(NamedTuple):
    """The ended pods whose ends a report does not show."""

    unreported: Sequence[PodState]
    """Pods that no report has shown."""
    reported: Mapping[PodState, Holdings]
    """Pods that the report shows, with what they hold."""
    remaining: Iterable[Holdings]
    """What the other pods of the report hold."""


class SplitPods(NamedTuple):
    """The assumed pods of a node, split at the last end of a pod that the report does not show."""

    bases: tuple[NodeState, ...]
    """The possible states of the node after this end, the likeliest first."""
    later: list[PodState]
    """The pods that arrive after this end, in their order."""


class NodeHistory:
    """The possible states of a node since its report.

    A later end cannot precede an arrival that is settled by rule 3. So the states up to such an arrival are computed
    once, and the time per event does not depend on the age of the report.
    """

    def __init__(self, reported: NodeState) -> None:
        self._reported = reported
        self._moments = [_Moment(reported)]
        self._settled = 0  # number of the last arrival of these moments
        self._ended: set[PodState] = set()  # pods of the report that are resident in these moments

    def split(self, assumed: list[PodState], ends: Ends, admit: Admit) -> SplitPods:
        """Split the assumed pods of the node. Without ends, the only base is the report's state.

        The same holds if no possible order admits all assumed pods.
        """
        self._add_residents(ends.reported)
        reported_zones = _reported_zones(self._reported, ends)
        ended = (*ends.unreported, *ends.reported)
        last_event = max((pod.end for pod in ended), default=self._settled)
        last_time = max((pod.removed_at or 0.0 for pod in ended), default=0.0)
        arriving = [pod for pod in (*ends.unreported, *assumed) if self._settled < pod.arrival < last_event]
        moments, is_settled = self._moments, True
        for pod in sorted(arriving, key=lambda pod: pod.arrival):
            moments = _after_arrival(moments, pod, reported_zones, admit)
            is_settled = is_settled and bool(moments) and not _may_arrive_after(pod, last_time)
            if is_settled:
                self._moments, self._settled = moments, pod.arrival
        bases = tuple(dict.fromkeys(_after_ends(moment, reported_zones).state for moment in moments))
        if not bases:
            return SplitPods((self._reported,), assumed)
        return SplitPods(bases, [pod for pod in assumed if not 0 < pod.arrival <= last_event])

    def _add_residents(self, reported: Mapping[PodState, Holdings]) -> None:
        """Add the ended pods of the report as residents, which leave at their ends."""
        new = tuple(entry for entry in reported.items() if entry[0] not in self._ended)
        if new:
            self._moments = [moment._replace(resident=(*moment.resident, *new)) for moment in self._moments]
            self._ended.update(reported)


def _reported_zones(reported: NodeState, ends: Ends) -> int:
    """Return the zones in which pods of the report that have not ended hold memory."""
    if not ends.reported:
        return reported.memory_assigned
    return without_pods(reported, ends.reported.values(), ends.remaining).memory_assigned


class _Moment(NamedTuple):
    """A possible state of the node between two events."""

    state: NodeState
    resident: tuple[tuple[PodState, Holdings], ...] = ()
    """The ended pods of the report, and the pods that have arrived since the report, with what they hold."""


def _after_arrival(moments: Sequence[_Moment], pod: PodState, reported_zones: int, admit: Admit) -> list[_Moment]:
    """Return the possible moments after the arrival of a pod; none if each rejects it although it has not ended."""
    before = [_after_ends(moment, reported_zones, before=pod.arrival) for moment in moments]
    possible = _with_early_ends(before, pod, reported_zones)
    after = [arrived for moment in possible if (arrived := _arrive(moment, pod, admit)) is not None]
    return list(dict.fromkeys(after))[:_MAX_STATES]


def _with_early_ends(moments: Sequence[_Moment], arriving: PodState, reported_zones: int) -> list[_Moment]:
    """Return the moments, and those after further ends that may precede the arrival of a pod."""
    possible = list(moments)
    for moment in possible:  # it grows: several pods may have ended
        if len(possible) < _MAX_STATES:
            possible += [
                _without(moment, {pod}, reported_zones)
                for pod, _ in moment.resident
                if pod.removed_at is not None and _may_arrive_after(arriving, pod.removed_at)
            ]
    return possible


def _may_arrive_after(pod: PodState, end: float) -> bool:
    """Return whether a pod may have arrived after an end that was observed at a time."""
    start = pod.observed_start if pod.observed_start is not None else pod.removed_at
    return start is None or start + END_DELAY > end


def _arrive(moment: _Moment, pod: PodState, admit: Admit) -> _Moment | None:
    """Return the moment after the arrival of a pod, or None if the pod is rejected although it has not ended."""
    after = admit(moment.state, pod.shape).after
    if after is None:
        return moment if pod.end else None
    return _Moment(after, (*moment.resident, (pod, _taken(moment.state, after))))


def _after_ends(moment: _Moment, reported_zones: int, before: int | None = None) -> _Moment:
    """Return the moment after all ends of its residents, or after those before an event."""
    ended = {pod for pod, _ in moment.resident if pod.end and (before is None or pod.end < before)}
    return _without(moment, ended, reported_zones) if ended else moment


def _without(moment: _Moment, ended: Set[PodState], reported_zones: int) -> _Moment:
    """Return the moment after some residents have ended."""
    remaining = tuple(entry for entry in moment.resident if entry[0] not in ended)
    held_zones = reported_zones
    for _, held in remaining:
        held_zones |= memory_zones(held)
    freed = [held for pod, held in moment.resident if pod in ended]
    return _Moment(release(moment.state, freed, held_zones), remaining)


def _taken(before: NodeState, after: NodeState) -> Holdings:
    """Return what an admitted pod holds."""
    amounts = (*_taken_memory(before, after), *_taken_devices(before, after))
    return Holdings(before.free_cpus & ~after.free_cpus, tuple(sorted(amounts)))


def _taken_memory(before: NodeState, after: NodeState) -> Iterator[tuple[str, int, int]]:
    for group in dict.fromkeys(after.memory_groups):
        rows = [row for row, row_group in enumerate(after.memory_groups) if row_group == group]
        for column, memory_type in enumerate(after.kind.memory_types):
            size = sum(before.memory_free[row][column] - after.memory_free[row][column] for row in rows)
            if size:
                yield memory_type, group, size


def _taken_devices(before: NodeState, after: NodeState) -> Iterator[tuple[str, int, int]]:
    for device, free_before, free_after in zip(after.kind.devices, before.device_free, after.device_free, strict=True):
        if free_before > free_after:
            yield device.resource, device.zones & ~NO_ZONE, free_before - free_after
