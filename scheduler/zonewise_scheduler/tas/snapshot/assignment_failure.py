"""The reasons why a pod set gets no topology assignment, as values and as Kueue's messages.

pkg/cache/scheduler/tas_flavor_snapshot.go tasExclusionStats, notFitMessage, multiLayerNotFitMessage.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_EMPTY: Mapping[str, int] = MappingProxyType({})


class ExclusionStats(NamedTuple):
    """Number of excluded leaves by cause; each leaf counts once, under the first cause in the order of the filters."""

    total: int = 0
    """All leaves."""
    node_selector: int = 0
    affinity: int = 0
    """Excluded by the required node affinity."""
    topology_domain: int = 0
    """Outside the required replacement domain."""
    taints: Mapping[str, int] = _EMPTY
    """By the first taint that is not tolerated, as key=value:effect."""
    avoided: Mapping[str, int] = _EMPTY
    """By the condition that gangs avoid and the nodes that have it; Kueue has no such count."""
    resources: Mapping[str, int] = _EMPTY
    """By the limiting resource of leaves without capacity for one pod."""
    kubelets: int = 0
    """Leaves with capacity for a pod that their kubelets would reject; Kueue has no such count."""

    def __str__(self) -> str:
        """Return Kueue's message (formatReasons); "" if no leaf is excluded."""
        leaves_by_cause = {
            "nodeSelector": self.node_selector,
            "affinity": self.affinity,
            "topologyDomain": self.topology_domain,
            "kubelet": self.kubelets,
        }
        reasons = [f"{cause}: {leaves}" for cause, leaves in leaves_by_cause.items() if leaves]
        reasons += [f'taint "{name}": {leaves}' for name, leaves in self.taints.items()]
        reasons += [f'avoided "{condition}": {leaves}' for condition, leaves in self.avoided.items()]
        reasons += [f'resource "{name}": {leaves}' for name, leaves in self.resources.items()]
        return f"Total nodes: {self.total}; excluded: {', '.join(sorted(reasons))}" if reasons else ""


class LayerFit(NamedTuple):
    """The number of slices of one layer that fit if the other layers are ignored."""

    level: str
    fit_count: int
    slice_count: int


class TopologyAssignmentFailure(NamedTuple):
    """The reason why the first pod set that does not fit has no assignment; the other pod sets get none either."""

    pod_set: str
    topology: str
    problem: str = ""
    """Why the request is invalid, or why a node cannot be replaced; "": the capacity is insufficient."""
    level: str = ""
    """The level of the one domain that must hold all pods; "": the whole topology has insufficient capacity."""
    domain: tuple[str, ...] = ()
    """Values of the level's domain that holds the most pods, the highest level first."""
    fit_count: int = 0
    """Slices that fit in that domain, or in the whole topology."""
    slice_count: int = 0
    """Slices in the pod set."""
    slice_size: int = 1
    """Pods in a slice."""
    layer_fits: tuple[LayerFit, ...] = ()
    """With several slice layers: the fit of each layer in that domain."""
    exclusions: ExclusionStats = ExclusionStats()

    def __str__(self) -> str:
        """Return Kueue's message."""
        if self.problem:
            return self.problem
        unit = "pod" if self.slice_size == 1 else "slice"
        message = f'topology "{self.topology}" '
        if self.layer_fits:
            fits = (f"{fit.fit_count}/{fit.slice_count} slice(s) fit on level {fit.level}" for fit in self.layer_fits)
            message += "; ".join(["doesn't allow to fit", *fits])
        elif self.fit_count:
            message += f"allows to fit only {self.fit_count} out of {self.slice_count} {unit}(s)"
        else:
            message += f"doesn't allow to fit any of {self.slice_count} {unit}(s)"
        exclusions = str(self.exclusions)
        return f"{message}. {exclusions}" if exclusions else message
