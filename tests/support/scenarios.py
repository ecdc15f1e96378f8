"""Scenarios to simulate: one queue, or several in a cohort; handmade and random jobs."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import read_node_info
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.simulator.scenario import Arrival, Scenario

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.history import History, JobHistory

FLAVOR = "default"
EAGER = ClusterQueuePreemption("LowerPriority", "Any")
"""The preemption policy of the queues in Kueue's performance tests."""


def queue(
    name: str = "q", cpus: int = 8, cohort: str = "", borrowing: int | None = None, **fields: Any
) -> ClusterQueue:
    """Return a ClusterQueue with a CPU quota."""
    quotas = (resource_group(FlavorQuotas(FLAVOR, (("cpu", ResourceQuota(cpus, borrowing)),))),)
    return ClusterQueue(name, quotas, cohort, **fields)


def arrival(
    name: str,
    cpus: int,
    run: float,
    at: float = 0,
    *,
    limit: float = inf,
    to: str = "q",
    pods: int = 1,
    priority: int = 0,
    kind: str = "",
) -> Arrival:
    """Return a job whose pods request this many CPUs each."""
    pod_set = PodSet(pods=pods, requests={"cpu": cpus})
    workload = Workload("ns", name, (pod_set,), f"uid-{name}", priority=priority, created_at=at, walltime=limit)
    return Arrival(workload, to, run, kind)


def scenario(*arrivals: Arrival, queues: tuple[ClusterQueue, ...] = (queue(),), **fields: Any) -> Scenario:
    """Return a scenario of jobs and their queues."""
    return Scenario("by hand", list(arrivals), queues, **fields)


def with_nodes(case: Scenario, *hosts: tuple[str, int]) -> Scenario:
    """Return the scenario with hosts of this many CPUs, in a topology of one level."""
    nodes = NodeInfoTable(
        [
            read_node_info(
                {
                    "metadata": {"name": name, "labels": {HOSTNAME: name}},
                    "status": {"allocatable": {"cpu": f"{cpus}m", "pods": "110"}},
                }
            )
            for name, cpus in hosts
        ]
    )
    flavors = (ResourceFlavor(FLAVOR, topology_name="hosts"),)
    return case._replace(flavors=flavors, topologies={"hosts": (HOSTNAME,)}, nodes=nodes)


def find_job(history: History, name: str) -> JobHistory:
    """Return a job's history."""
    return next(entry for entry in history.jobs if entry.name == name)


def start_times(history: History) -> dict[str, float | None]:
    """Return the start of each job's final run."""
    return {job.name: job.started for job in history.jobs}


@st.composite
def scenarios(draw: st.DrawFn, *, max_jobs: int = 12, priorities: int = 2, declared: bool = False) -> Scenario:
    """Draw up to three queues, separate or in a cohort, with or without preemption; many events are simultaneous."""
    cohort = draw(st.sampled_from(["", "all"]))
    policies = st.sampled_from(
        [ClusterQueuePreemption(), EAGER, ClusterQueuePreemption("LowerOrNewerEqualPriority", "LowerPriority")]
    )
    queues = tuple(
        queue(f"q{index}", draw(st.integers(2, 8)), cohort, preemption=draw(policies))
        for index in range(draw(st.integers(1, 3)))
    )
    jobs: list[Arrival] = []
    now = 0
    for serial in range(draw(st.integers(1, max_jobs))):
        now += draw(st.integers(0, 4))
        run = draw(st.integers(0, 12))
        unused = draw(st.sampled_from([0.0, 1.0, 10.0] + [inf] * (not declared)))
        to = draw(st.sampled_from(queues)).name
        size, pods = draw(st.integers(0, 5)), draw(st.integers(1, 3))
        priority = draw(st.integers(0, priorities))
        jobs.append(
            arrival(f"j{serial}", size, run, now, limit=max(run + unused, 1), to=to, pods=pods, priority=priority)
        )
    return scenario(*jobs, queues=queues)
