"""Jobs of a log on nodes: processors as pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.resource_names import CPU
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.simulator.inputs.errors import InputError
from zonewise_scheduler.simulator.inputs.node_fleet import DEFAULT_QUEUE, build_fleet_scenario, build_queues
from zonewise_scheduler.simulator.scenario import Arrival

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet
    from zonewise_scheduler.simulator.scenario import Scenario
    from zonewise_scheduler.simulator.swf import LoggedJob, SwfLog

_FIELDS = 18
_MILLI = 1000
_NAMESPACE = "log"
_REST = "rest"


def is_swf(name: str, head: bytes) -> bool:
    """Tell whether a file is a log, by its name or what it begins with: a header of lines with ";", or 18 numbers."""
    if name.endswith((".swf", ".swf.gz")) or head.startswith(b";"):
        return True
    first = next(iter(head.split(b"\n")), b"").split()
    return len(first) == _FIELDS and all(_is_number(word) for word in first)


def build_swf_scenario(log: SwfLog, fleet: Fleet, name: str, *, whole_nodes: bool = False) -> Scenario:
    """Return a log's jobs on a fleet, in one queue.

    A processor becomes a pod of one CPU. With `whole_nodes` a job's pods are as wide as the fleet's smallest node, but
    for one with the rest. Raises InputError where there is no job.
    """
    if not log.jobs:
        raise InputError(name, "; ".join(["no job could be read", *map(str, log.problems)]))
    width = _narrowest(fleet) if whole_nodes else 1
    sets: dict[int, tuple[PodSet, ...]] = {}
    arrivals: list[Arrival] = []
    taken: set[int] = set()
    problems = [f"{name}: {one}" for one in log.problems]
    for one in sorted(log.jobs, key=lambda one: (one.submit_time, one.job_number)):
        if one.job_number in taken:
            problems.append(f"{name}: job number {one.job_number}: there is one already: the first is taken")
            continue
        taken.add(one.job_number)
        if one.processors not in sets:
            sets[one.processors] = _pods(one.processors, width)
        arrivals.append(_arrival(one, len(arrivals), sets[one.processors]))
    return build_fleet_scenario(name, fleet, arrivals, build_queues(fleet, ()), problems)


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _arrival(one: LoggedJob, serial: int, pod_sets: tuple[PodSet, ...]) -> Arrival:
    kin = (one.user, one.queue, one.executable)
    name = str(one.job_number)
    workload = Workload(
        _NAMESPACE,
        name,
        pod_sets,
        f"{serial:08d}",
        DEFAULT_QUEUE,
        created_at=one.submit_time,
        walltime=one.requested_time,
        history_keys=kin,
    )
    return Arrival(workload, DEFAULT_QUEUE, one.run_time)


def _pods(processors: int, width: int) -> tuple[PodSet, ...]:
    pods, rest = divmod(processors, width)
    sets = [PodSet(pods=pods, requests={CPU: width * _MILLI})] if pods else []
    if rest:
        sets.append(PodSet(_REST if pods else PodSet().name, 1, {CPU: rest * _MILLI}))
    return tuple(sets)


def _narrowest(fleet: Fleet) -> int:
    """Return the whole CPUs of the smallest node."""
    sizes = [info.allocatable.milli_cpus // _MILLI for info in fleet.nodes.infos if info is not None]
    return max(min(sizes, default=1), 1)
