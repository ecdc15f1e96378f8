"""The states to which pods lead that have ended before any report has shown them.

Such a pod held its zones when the pods after it arrived, so these got other zones, which they keep after its end.

1. A kubelet receives pods in the order of their bindings, and the ledger observes the bindings in the same order.
2. The ledger observes the end of a pod after it happened. A pod that it observes to be bound later arrived later.
3. A pod whose start was observed END_DELAY before an end arrived before this end.
4. A pod between these two arrived before the end or after it. Both are possible, so there may be several states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.nrt.holdings import Holdings
from zonewise_scheduler.admission.node import NO_ZONE
from zonewise_scheduler.nodes.preemption.release import memory_zones, release

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.assumed.pod_state import PodState
    from zonewise_scheduler.nodes.assumed.types import Admit

END_DELAY = 1.0
"""Seconds by which a kubelet may write the end of a pod later than a start that happened after it."""
_MAX_ENDS = 16
"""Maximum ends that count, the latest first: together with _MAX_STATES, a bound on the time per event."""
_MAX_STATES = 8
"""Maximum states that count, the likeliest first."""


class SplitPods(NamedTuple):
    """The assumed pods of a node, split at the last end that matters for their zones."""

    bases: tuple[NodeState, ...]
    """The possible states of the node after this end, the likeliest first."""
    later: list[PodState]
    """The pods that arrive after this end, in their order."""


def split_at_last_end(
    reported: NodeState, assumed: list[PodState], ended: Iterable[PodState], admit: Admit
) -> SplitPods:
    """Split the assumed pods of a node. Without an end that matters, the only base is the report's state.

    The same holds if no possible order admits all assumed pods.
    """
    overlapping = _overlapping(assumed, ended)
    if not overlapping:
        return SplitPods((reported,), assumed)
    last_end = max(pod.end for pod in overlapping)
    earlier = [pod for pod in assumed if 0 < pod.arrival < last_end]
    bases = _states_after([*overlapping, *earlier], reported, admit)
    if not bases:
        return SplitPods((reported,), assumed)
    return SplitPods(bases, [pod for pod in assumed if pod not in earlier])


def _overlapping(assumed: Sequence[PodState], ended: Iterable[PodState]) -> list[PodState]:
    """Return the ended pods that were on the node together with assumed pods, or with other pods that were."""
    overlapping: list[PodState] = []
    first_arrival = min((pod.arrival for pod in assumed if pod.arrival), default=None)
    for pod in sorted(ended, key=lambda pod: -pod.end):
        if first_arrival is not None and pod.end > first_arrival:
            overlapping.append(pod)
            first_arrival = min(first_arrival, pod.arrival)
    return overlapping[:_MAX_ENDS]


class _Moment(NamedTuple):
    """A possible state of the node between two events."""

    state: NodeState
    reported_zones: int
    """The zones in which pods of the report hold memory."""
    resident: tuple[tuple[PodState, Holdings], ...] = ()
    """The pods that have arrived since the report, with what they hold."""


def _states_after(pods: Sequence[PodState], reported: NodeState, admit: Admit) -> tuple[NodeState, ...]:
    """Return the possible states after the arrivals and ends of pods; none if each rejects a pod that has not ended."""
    moments = [_Moment(reported, reported.memory_assigned)]
    arrivals = {pod.arrival: pod for pod in pods}
    ends = {pod.end: pod for pod in pods if pod.end}
    for event in sorted((*arrivals, *ends)):
        if event in ends:
            after = [_end(moment, ends[event]) for moment in moments]
        else:
            before = _with_early_ends(moments, arrivals[event])
            after = [arrived for moment in before if (arrived := _arrive(moment, arrivals[event], admit)) is not None]
        moments = list(dict.fromkeys(after))[:_MAX_STATES]
    return tuple(dict.fromkeys(moment.state for moment in moments))


def _with_early_ends(moments: Sequence[_Moment], arriving: PodState) -> list[_Moment]:
    """Return the moments, and those after further ends that may precede the arrival of a pod."""
    possible = list(moments)
    for moment in possible:  # it grows: several pods may have ended
        if len(possible) < _MAX_STATES:
            possible += [_end(moment, pod) for pod, _ in moment.resident if _may_precede(pod, arriving)]
    return possible


def _may_precede(ended: PodState, arriving: PodState) -> bool:
    """Return whether a pod may have ended before another one arrived, although its end was observed later."""
    start = arriving.observed_start
    return ended.removed_at is not None and (start is None or start + END_DELAY > ended.removed_at)


def _arrive(moment: _Moment, pod: PodState, admit: Admit) -> _Moment | None:
    """Return the moment after the arrival of a pod, or None if the pod is rejected although it has not ended."""
    after = admit(moment.state, pod.shape).after
    if after is None:
        return moment if pod.end else None
    return moment._replace(state=after, resident=(*moment.resident, (pod, _taken(moment.state, after))))


def _end(moment: _Moment, pod: PodState) -> _Moment:
    """Return the moment after the end of a pod, which may have happened already."""
    freed = [held for resident, held in moment.resident if resident is pod]
    remaining = tuple(entry for entry in moment.resident if entry[0] is not pod)
    held_zones = moment.reported_zones
    for _, held in remaining:
        held_zones |= memory_zones(held)
    return moment._replace(state=release(moment.state, freed, held_zones), resident=remaining)


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
