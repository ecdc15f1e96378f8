"""Runs a log on nodes, with processors as pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.resource_names import CPU
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.simulator.inputs.node_fleet import DEFAULT_QUEUE, build_fleet_scenario, build_queues
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Arrival

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet
    from zonewise_scheduler.simulator.scenario import Scenario
    from zonewise_scheduler.simulator.swf import LoggedJob, SwfLog

_FIELDS = 18
_MILLI = 1000
_NAMESPACE = "log"
_REMAINDER = "rest"


def is_swf(name: str, head: bytes) -> bool:
    """Return whether a file is a log, judging by its name, a header of lines with ";", or a line of 18 numbers."""
    if name.endswith((".swf", ".swf.gz")) or head.startswith(b";"):
        return True
    first = next(iter(head.split(b"\n")), b"").split()
    return len(first) == _FIELDS and all(_is_number(word) for word in first)


def build_swf_scenario(log: SwfLog, fleet: Fleet, name: str, *, whole_nodes: bool = False) -> Scenario:
    """Return a log's jobs on a fleet, in one queue.

    Each processor becomes a pod with one CPU. With `whole_nodes`, each pod is as wide as the fleet's smallest node,
    except one pod with the remainder. Raises InputError if there is no job.
    """
    if not log.jobs:
        raise InputError(name, "; ".join(["no job could be read", *map(str, log.problems)]))
    pod_width = _smallest_node(fleet) if whole_nodes else 1
    pod_sets: dict[int, tuple[PodSet, ...]] = {}
    arrivals: list[Arrival] = []
    problems = [f"{name}: {job}" for job in log.problems]
    for job in (log.jobs[row] for row in log.jobs.by_submission()):
        if job.processors not in pod_sets:
            pod_sets[job.processors] = _pod_sets(job.processors, pod_width)
        arrivals.append(_arrival(job, len(arrivals), pod_sets[job.processors]))
    scenario = build_fleet_scenario(name, fleet, arrivals, build_queues(fleet, ()), problems)
    return scenario._replace(partial=log.partial)


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _arrival(job: LoggedJob, serial: int, pod_sets: tuple[PodSet, ...]) -> Arrival:
    kin = (job.user, job.queue, job.executable)
    name = str(job.job_number)
    workload = Workload(
        _NAMESPACE,
        name,
        pod_sets,
        f"{serial:08d}",
        DEFAULT_QUEUE,
        created_at=job.submit_time,
        walltime=job.requested_time,
        history_keys=kin,
    )
    return Arrival(workload, DEFAULT_QUEUE, job.run_time)


def _pod_sets(processors: int, width: int) -> tuple[PodSet, ...]:
    pods, remainder = divmod(processors, width)
    sets = [PodSet(pods=pods, requests={CPU: width * _MILLI})] if pods else []
    if remainder:
        sets.append(PodSet(_REMAINDER if pods else PodSet().name, 1, {CPU: remainder * _MILLI}))
    return tuple(sets)


def _smallest_node(fleet: Fleet) -> int:
    """Return the number of whole CPUs of the smallest node."""
    cpus = [info.allocatable.milli_cpus // _MILLI for info in fleet.nodes.infos if info is not None]
    return max(min(cpus, default=1), 1)
