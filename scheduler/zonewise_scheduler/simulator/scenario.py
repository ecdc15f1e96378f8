"""A scenario: queues, nodes, and submitted jobs."""

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
    """The ClusterQueue's name."""
    run_time: float
    """True run time in seconds, once all its pods are ready; it may exceed the walltime."""
    kind: str = ""
    """The class of the job ("small"), for summaries; ""."""


class Scenario(NamedTuple):
    """The input of a cluster simulation."""

    name: str
    arrivals: list[Arrival]
    """By time."""
    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...] = ()
    flavors: tuple[ResourceFlavor, ...] = ()
    topologies: Mapping[str, Sequence[str]] = {}
    """Levels of each Topology, the outermost first."""
    nodes: NodeInfoTable | None = None
    """Nodes of flavors with a Topology; None: only quotas count."""
    states: Mapping[str, NodeState] = {}
    """State of the zones of a node, by its name; a node without one has no zones."""
    settings: QuotaSettings = DEFAULT_SETTINGS
    problems: tuple[str, ...] = ()
    """Problems of the input, a sentence each."""
    local_queues: tuple[LocalQueue, ...] | None = None
    """LocalQueues that jobs name; None: jobs are submitted to ClusterQueues."""
