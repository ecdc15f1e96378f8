"""Topology requests of pod sets, and the topology assignments that fulfil them.

apis/kueue/v1beta2/workload_types.go PodSetTopologyRequest, TopologyAssignment; KEP-2724.
"""

from typing import NamedTuple

from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm

HOSTNAME = "kubernetes.io/hostname"
"""If this is the lowest level, a leaf is a node, and node filters apply."""

PODS = "pods"
"""The resource of which each pod uses one."""


class SliceConstraint(NamedTuple):
    """A slice layer: each slice of `size` pods must be in one domain of the level."""

    level: str
    size: int
    """Number of pods; 0 if not set."""


class PodSetTopologyRequest(NamedTuple):
    """The levels that a pod set requests of the topology, as label keys."""

    required: str = ""
    """One domain of this level must hold all pods."""
    preferred: str = ""
    """One domain of this level should hold all pods, or else one of a higher level, or else several of the highest."""
    unconstrained: bool = False
    """Whether any domains may be used."""
    slice_constraints: tuple[SliceConstraint, ...] = ()
    """Slice layers, highest level first; each size is a multiple of the next."""

    @property
    def levels(self) -> tuple[str, ...]:
        """Return all levels that it names."""
        level = self.required or self.preferred
        return (*([level] if level else ()), *(layer.level for layer in self.slice_constraints if layer.level))


class PreferredSchedulingTerm(NamedTuple):
    """A term of the preferred node affinity."""

    weight: int
    term: NodeSelectorTerm


class TopologyDomainAssignment(NamedTuple):
    """A leaf and the number of pods assigned to it."""

    values: tuple[str, ...]
    pods: int


class TopologyAssignment(NamedTuple):
    """The leaves of a pod set's pods, in the order of their values."""

    levels: tuple[str, ...]
    """Label keys of the domains' values; only the hostname if that is the lowest level."""
    domains: tuple[TopologyDomainAssignment, ...]

    @property
    def pod_count(self) -> int:
        """Return the number of pods in all domains."""
        return sum(domain.pods for domain in self.domains)
