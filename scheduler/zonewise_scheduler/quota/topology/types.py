"""What is to be placed over the levels of a Topology, and where it is.

apis/kueue/v1beta2/workload_types.go PodSetTopologyRequest, TopologyAssignment; KEP-2724.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
from zonewise_scheduler.nodes.filters.constraints import Constraints

HOSTNAME = "kubernetes.io/hostname"
"""Where this is the innermost level, a leaf is a node, and filters of nodes apply."""

PODS = "pods"
"""The resource of which each pod takes one."""


class SliceConstraint(NamedTuple):
    """Slices: so many pods at a time share a domain of a level."""

    level: str
    size: int
    """Pods; 0: it was not given."""


class PodSetTopologyRequest(NamedTuple):
    """What a pod set asks of the topology; levels are label keys."""

    required: str = ""
    """One domain of this level must hold all pods."""
    preferred: str = ""
    """One domain of this level should; else one of a level further out, else several of the outermost."""
    unconstrained: bool = False
    """Any domains."""
    slice_constraints: tuple[SliceConstraint, ...] = ()
    """Outermost first; each size is a multiple of the next."""


class PreferredSchedulingTerm(NamedTuple):
    """A term of the preferred node affinity."""

    weight: int
    term: NodeSelectorTerm


class TopologyDomainAssignment(NamedTuple):
    """A leaf that has pods."""

    values: tuple[str, ...]
    pods: int
    """How many."""


class TopologyAssignment(NamedTuple):
    """Where the pods of a set are; leaves in the order of their values."""

    levels: tuple[str, ...]
    """Label keys of the values of each domain: the hostname alone where that is the innermost level."""
    domains: tuple[TopologyDomainAssignment, ...]

    @property
    def pod_count(self) -> int:
        """Return how many pods it places."""
        return sum(domain.pods for domain in self.domains)


class TASPodSetRequests(NamedTuple):
    """Pods of one template."""

    name: str
    pod_count: int
    """How many pods."""
    single_pod_requests: Mapping[str, int]
    """Of one pod, by resource: milli-CPU, bytes, counts."""
    topology_request: PodSetTopologyRequest | None = None
    """None: none is made, which asks for no level."""
    constraints: Constraints = Constraints()
    """Tolerations, selector and required affinity; the requests in it are not looked at."""
    preferences: tuple[PreferredSchedulingTerm, ...] = ()
    group_name: str = ""
    """Two sets of one group are placed together: a leader, which is one pod, and its workers."""
    previous_assignment: TopologyAssignment | None = None
    """Where the pods are of the workload slice that this one replaces (KEP-77)."""
    max_pods: NDArray[np.int64] | None = None
    """(leaves,): how many of the pods the kubelets of a leaf admit at most (fit.batch Table.copies); None: no bound."""
    max_pods_with_leader: NDArray[np.int64] | None = None
    """(leaves,): how many of them, after the leader of their group; None: no further bound."""


class TASFeatureGates(NamedTuple):
    """Kueue's feature gates, with its defaults (pkg/features/kube_features.go, v0.20)."""

    profile_mixed: bool = True
    """TASProfileMixed: pods without constraint go where least is free."""
    balanced_placement: bool = False
    """TASBalancedPlacement: where a level is preferred, spread evenly over as few domains as can be."""
    respect_node_affinity_preferred: bool = False
    """TASRespectNodeAffinityPreferred: the preferred node affinity comes before all sizes."""
    elastic_jobs: bool = False
    """ElasticJobsViaWorkloadSlicesWithTAS: pods of the previous slice stay."""
