"""What is simulated: queues, nodes, and the jobs that come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
    from zonewise_scheduler.quota.api.workload_types import Workload


class Arrival(NamedTuple):
    """A job, and what only time tells of it."""

    workload: Workload
    """Its `created` is when it comes, in seconds since the simulation's begin; it has no admission."""
    queue: str
    """The ClusterQueue's name."""
    run_time: float
    """How long it takes in truth once all its pods are ready, in seconds; longer than declared if need be."""
    kind: str = ""
    """The class of jobs that it is of ("small"), for summaries; ""."""


class Scenario(NamedTuple):
    """All that a simulation is about."""

    name: str
    arrivals: list[Arrival]
    """By time."""
    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...] = ()
    flavors: tuple[ResourceFlavor, ...] = ()
    topologies: Mapping[str, Sequence[str]] = {}
    """Levels of each Topology, the outermost first."""
    nodes: NodeInfoTable | None = None
    """Where pods are placed, for flavors with a topology; None: only quotas count."""
    states: Mapping[str, NodeState] = {}
    """What is known of the zones of nodes, by their names."""
    settings: QuotaSettings = DEFAULT_SETTINGS
    problems: tuple[str, ...] = ()
    """What was wrong in what it was read from, a sentence each; the rest stands."""
    local_queues: tuple[LocalQueue, ...] | None = None
    """Those that jobs name; None: jobs are submitted to ClusterQueues."""
