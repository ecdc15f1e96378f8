"""Why a workload waits, in a sentence that a person understands."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.explain.phrases import amount, count, listed
from zonewise_scheduler.admission.resource_names import CPU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.backfill.explain import Explanation, UnsuitableFlavor
    from zonewise_scheduler.backfill.shortage import QuotaShortage
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure

_MANY = 3
"""Workloads that are named one by one; of more, the last to end."""
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def explanation_message(explanation: Explanation) -> str:
    """Return why a workload waits: "needs 4 CPUs of flavor all; cohort team has 2 of its 8 left; waits for b to end".

    Workloads are named by namespace and name, times are from when it was asked on.
    """
    return "; ".join([*_hindrances(explanation), *_outlook(explanation)])


def format_duration(seconds: float) -> str:
    """Return "43 s", "5 min", "2 h 10 min", "3 d 4 h": to the second, or to what matters beside the largest unit."""
    rest = max(0, round(seconds))
    for place, (size, name) in enumerate(_UNITS):
        if rest >= size:
            smaller, of = _UNITS[place + 1] if place + 1 < len(_UNITS) else (1, "s")
            some = rest % size // smaller
            return f"{rest // size} {name} {some} {of}" if some else f"{rest // size} {name}"
    return f"{rest} s"


def _hindrances(reason: Explanation) -> list[str]:
    if reason.queue_message:
        return [reason.queue_message]
    if reason.failed_checks:
        several = len(reason.failed_checks) > 1
        return [
            f"its admission check{'s' * several} {listed(reason.failed_checks)} {'have' if several else 'has'} failed"
        ]
    said = [_unsuited(one) for one in reason.unsuitable_flavors] + [_shortage(one) for one in reason.shortages]
    if reason.placement_failure is not None:
        said.append(_place(reason.placement_failure))
    if reason.gated:
        said.append("may not make others give way: its preemption gate is closed")
    elif reason.victims:
        said.append(f"needs {_named(reason.victims)} to give way")
    if reason.delayed_reservation is not None:
        start = _when(reason.delayed_reservation.start, reason.now)
        said.append(f"would delay {reason.delayed_reservation.workload.key}, which is promised to start {start}")
    if reason.blocked_by:
        said.append(f"{reason.blocked_by} is before it in ClusterQueue {reason.queue}, and is not passed")
    return said or [
        f"is number {reason.position} in ClusterQueue {reason.queue}, and has its turn with the next decision"
    ]


def _outlook(reason: Explanation) -> list[str]:
    if reason.never_fits:
        return ["cannot start even when all else has ended"]
    said = [f"waits for {_named(reason.waits_for)} to end"] if reason.waits_for else []
    if reason.reserved:
        said.append(f"is promised to start {_when(reason.start, reason.now)}")
    elif reason.start < inf:
        said.append(f"there is room for it {_when(reason.start, reason.now)}")
    return said


def _shortage(one: QuotaShortage) -> str:
    needs = f"needs {_amount(one.resource, one.requested)} of flavor {one.flavor}"
    size, left = _count(one.resource, one.limit_amount), _count(one.resource, one.available)
    if one.limit_kind == "borrowing":
        has = f"{one.limiting_node} may borrow {size} at most, and has {left}" + (
            "" if one.exceeds_max_quota else " left"
        )
    elif one.exceeds_max_quota:
        has = f"{_whose(one)} has {left}"
    else:
        has = f"{_whose(one)} has {left} of its {size} left"
    withheld = f", and {_count(one.resource, one.not_lent)} more that its queues do not lend" if one.not_lent else ""
    return f"{needs}; {has}{withheld}"


def _whose(one: QuotaShortage) -> str:
    return f"cohort {one.limiting_node}" if one.limit_kind == "cohort" else f"ClusterQueue {one.limiting_node}"


def _unsuited(one: UnsuitableFlavor) -> str:
    of = [f"flavor {one.flavor}"] if one.flavor else []
    of += [one.resource] if one.resource else []
    return f"{', '.join(of)}: {one.message}" if of else one.message


def _place(one: TopologyPlacementFailure) -> str:
    said = f"flavor {one.flavor}: {one.reason}"
    if one.domain and one.level:
        said += f"; most room is in {one.level} {'/'.join(one.domain)}"
    return f"{said}; on node {one.node} it {one.kubelet_reason}" if one.kubelet_reason else said


def _named(keys: Sequence[str]) -> str:
    if len(keys) <= _MANY:
        return listed(list(keys))
    return listed([f"{len(keys) - 1} workloads", keys[-1]])


def _when(time: float, now: float) -> str:
    if time == inf:
        return "at a time that nobody knows, since some declare no run time"
    return "now" if time <= now else f"in {format_duration(time - now)} at the latest"


def _amount(resource: str, size: int) -> str:
    return f"{_count(resource, size)} CPU{'' if size == 1000 else 's'}" if resource == CPU else amount(resource, size)


def _count(resource: str, size: int) -> str:
    return f"{size / 1000:g}" if resource == CPU else count(resource, size)
