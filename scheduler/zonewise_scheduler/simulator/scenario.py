"""A scenario: queues, nodes and submitted jobs."""

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
    """A job and its true run time."""

    workload: Workload
    """Its `created_at` is the submission, in seconds since the start of the simulation; it has no admission."""
    queue: str
    """Name of the ClusterQueue."""
    run_time: float
    """True run time in seconds, once all its pods are ready; it may exceed the walltime."""
    kind: str = ""
    """Class of the job for summaries, such as "small", or ""."""


class Scenario(NamedTuple):
    """The input of a cluster simulation."""

    name: str
    arrivals: list[Arrival]
    """Jobs by time of submission."""
    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...] = ()
    flavors: tuple[ResourceFlavor, ...] = ()
    topologies: Mapping[str, Sequence[str]] = {}
    """Levels of each Topology, outermost first."""
    nodes: NodeInfoTable | None = None
    """Nodes of flavors with a Topology; None if only quotas count."""
    states: Mapping[str, NodeState] = {}
    """State of the zones by node name; a node without a state has no zones."""
    settings: QuotaSettings = DEFAULT_SETTINGS
    problems: tuple[str, ...] = ()
    """Problems of the input, a sentence each."""
    partial: int = 0
    """As in SwfLog."""
    local_queues: tuple[LocalQueue, ...] | None = None
    """LocalQueues that jobs name; None if jobs are submitted to ClusterQueues."""
