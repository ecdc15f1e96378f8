"""The input of a topology assignment: pod set requests and feature gates."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, PreferredSchedulingTerm, TopologyAssignment


class TASPodSetRequests(NamedTuple):
    """A pod set that needs a topology assignment."""

    name: str
    pod_count: int
    single_pod_requests: Mapping[str, int]
    """Requests of one pod by resource, in milli-CPU, bytes or counts."""
    topology_request: PodSetTopologyRequest | None = None
    """None: no level is requested."""
    constraints: Constraints = Constraints()
    """Tolerations, selector and required affinity; its resource requests are ignored."""
    preferences: tuple[PreferredSchedulingTerm, ...] = ()
    group_name: str = ""
    """Two pod sets of one group are assigned together: a leader, which is one pod, and its workers."""
    previous_assignment: TopologyAssignment | None = None
    """The assignment of the workload slice that this pod set's workload replaces (KEP-77)."""
    max_pods: NDArray[np.int64] | None = None
    """(leaves,): upper bound on the pods that the kubelets of a leaf admit; None: no bound."""
    max_pods_with_leader: NDArray[np.int64] | None = None
    """(leaves,): the same bound for a leaf that also holds the group's leader; None: no further bound."""


class TASFeatureGates(NamedTuple):
    """Kueue's feature gates, with its defaults (pkg/features/kube_features.go, v0.20)."""

    profile_mixed: bool = True
    """TASProfileMixed: unconstrained pods go to the domains with the least free capacity."""
    balanced_placement: bool = False
    """TASBalancedPlacement: for a preferred level, pods are spread evenly over the fewest possible domains."""
    respect_node_affinity_preferred: bool = False
    """TASRespectNodeAffinityPreferred: the preferred node affinity ranks before capacity."""
    elastic_jobs: bool = False
    """ElasticJobsViaWorkloadSlicesWithTAS: pods of the previous workload slice keep their leaves."""
