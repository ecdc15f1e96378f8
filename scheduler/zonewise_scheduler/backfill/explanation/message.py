"""Formats an explanation as a sentence."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.explain.phrases import listed, milli_amount, milli_count
from zonewise_scheduler.admission.resource_names import CPU

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.backfill.explanation.explanation import Explanation, QuotaShortage, UnsuitableFlavor
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure

_MAX_NAMED = 3
"""Maximum number of workloads that are named. Of a longer list, only the last to end is named and the others are
counted."""
UNKNOWN_TIME = "at an unknown time, since workloads without a walltime must end first"
_TIME_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def relative_time(time: float, now: float) -> str:
    """Return the time of a start as text: "in 5 min", "now"."""
    if time == inf:
        return UNKNOWN_TIME
    return "now" if time <= now else f"in {format_duration(time - now)}"


def explanation_message(explanation: Explanation, when: Callable[[float, float], str] = relative_time) -> str:
    """Return why a workload waits: "needs 4 CPUs of flavor all; cohort team has 2 of its 8 left; waits for b to end".

    Workloads are named by namespace and name. `when` formats a start, given the start and explanation.now.
    """
    return "; ".join([*_reasons(explanation, when), *_start(explanation, when)])


def format_duration(seconds: float) -> str:
    """Return "43 s", "5 min", "2 h 10 min", "3 d 4 h": the largest unit, and the next smaller one unless it is zero."""
    rest = max(0, round(seconds))
    for index, (size, unit) in enumerate(_TIME_UNITS[:-1]):
        if rest >= size:
            smaller_size, smaller_unit = _TIME_UNITS[index + 1]
            smaller = rest % size // smaller_size
            return f"{rest // size} {unit} {smaller} {smaller_unit}" if smaller else f"{rest // size} {unit}"
    return f"{rest} s"


def _reasons(explanation: Explanation, when: Callable[[float, float], str]) -> list[str]:
    if explanation.queue_message:
        return [explanation.queue_message]
    if explanation.failed_checks:
        checks = listed(explanation.failed_checks)
        return [
            f"its admission checks {checks} have failed"
            if len(explanation.failed_checks) > 1
            else f"its admission check {checks} has failed"
        ]
    queue = f"ClusterQueue {explanation.queue}"
    begin = explanation.begin_at
    clauses = [f"begins {when(begin, explanation.now)} at the earliest"] if begin else []
    clauses += [f"replaces {explanation.replaces}, whose pods run on"] if explanation.replaces else []
    clauses += [_unsuitable_flavor(flavor) for flavor in explanation.unsuitable_flavors]
    clauses += [_quota_shortage(shortage) for shortage in explanation.shortages]
    if explanation.placement_failure is not None:
        clauses.append(_placement_failure(explanation.placement_failure))
    clauses += [f"DeviceClass {name} provides {resource}" for resource, name in explanation.device_classes]
    if explanation.gated:
        clauses.append("would have to preempt: its preemption gate is closed")
    elif explanation.victims:
        clauses.append(f"has to preempt {_workloads(explanation.victims)}")
    if (delayed := explanation.delayed_reservation) is not None:
        reserved = _reserved_start(delayed.start, explanation.now, when)
        clauses.append(f"would delay {delayed.key}, which is reserved to start {reserved}")
    if explanation.blocked_by:
        clauses.append(f"{explanation.blocked_by} is before it in {queue} and must start first")
    if len(clauses) > bool(explanation.replaces):
        return clauses
    return [*clauses, f"is number {explanation.position} in {queue}; the next scheduling pass decides"]


def _start(explanation: Explanation, when: Callable[[float, float], str]) -> list[str]:
    if explanation.never_fits:
        return ["cannot start even when all other workloads have ended"]
    clauses = [f"waits for {_workloads(explanation.waits_for)} to end"] if explanation.waits_for else []
    if explanation.reserved:
        clauses.append(f"is reserved to start {_reserved_start(explanation.start, explanation.now, when)}")
    elif explanation.start < inf:
        clauses.append(f"could start {_possible_start(explanation.start, explanation.now, when)}")
    return clauses


def _reserved_start(start: float, now: float, when: Callable[[float, float], str]) -> str:
    """Return a reserved start as text: no other workload delays it."""
    return f"{when(start, now)} at the latest" if now < start < inf else when(start, now)


def _possible_start(start: float, now: float, when: Callable[[float, float], str]) -> str:
    """Return a start that is not reserved as text: any other workload may take what it needs."""
    return f"{when(start, now)} unless others start first" if now < start else when(start, now)


def _quota_shortage(shortage: QuotaShortage) -> str:
    needs = f"needs {_amount(shortage.resource, shortage.requested)} of flavor {shortage.flavor}"
    limit = milli_count(shortage.resource, shortage.limit_amount)
    available = milli_count(shortage.resource, shortage.available)
    if shortage.limit_kind == "borrowing":
        left = "" if shortage.exceeds_max_quota else " left"
        holder = f"{shortage.limiting_node} may borrow {limit} at most, and has {available}{left}"
    elif shortage.exceeds_max_quota:
        holder = f"{_limiting_node(shortage)} has {available}"
    else:
        holder = f"{_limiting_node(shortage)} has {available} of its {limit} left"
    if shortage.not_lent:
        holder += f", and {milli_count(shortage.resource, shortage.not_lent)} more that its queues do not lend"
    return f"{needs}; {holder}"


def _limiting_node(shortage: QuotaShortage) -> str:
    return f"{'cohort' if shortage.limit_kind == 'cohort' else 'ClusterQueue'} {shortage.limiting_node}"


def _unsuitable_flavor(flavor: UnsuitableFlavor) -> str:
    subject = [f"flavor {flavor.flavor}"] if flavor.flavor else []
    subject += [flavor.resource] if flavor.resource else []
    return f"{', '.join(subject)}: {flavor.message}" if subject else flavor.message


def _placement_failure(failure: TopologyPlacementFailure) -> str:
    message = f"flavor {failure.flavor}: {failure.reason}"
    if failure.domain and failure.level:
        message += f"; most capacity is in {failure.level} {'/'.join(failure.domain)}"
    return f"{message}; on node {failure.node} it {failure.kubelet_reason}" if failure.kubelet_reason else message


def _workloads(keys: Sequence[str]) -> str:
    if len(keys) <= _MAX_NAMED:
        return listed(list(keys))
    return listed([f"{len(keys) - 1} workloads", keys[-1]])


def _amount(resource: str, size: int) -> str:
    return "1 CPU" if (resource, size) == (CPU, 1000) else milli_amount(resource, size)
