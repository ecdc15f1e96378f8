"""Why leaves take none of the pods, counted."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_NONE: Mapping[str, int] = MappingProxyType({})


class ExclusionStats(NamedTuple):
    """How many leaves are out of the question, each counted once, by the first cause in the order of the filters."""

    total: int = 0
    """Of all leaves, those that have room too."""
    node_selector: int = 0
    """By spec.nodeSelector."""
    affinity: int = 0
    """By the required node affinity."""
    topology_domain: int = 0
    """Not in the one domain that may hold the pods."""
    taints: Mapping[str, int] = _NONE
    """By the first taint that is not tolerated, as key=value:effect."""
    resources: Mapping[str, int] = _NONE
    """By the resource that is shortest, of those that have no room for one pod."""
    kubelets: int = 0
    """Those with room for a pod that their kubelets do not admit; Kueue does not count them."""

    def __str__(self) -> str:
        """Return the words of Kueue's messages (tasExclusionStats formatReasons); "" where there is none."""
        found = [
            f"{name}: {count}"
            for name, count in (
                ("nodeSelector", self.node_selector), ("affinity", self.affinity), ("topologyDomain", self.topology_domain),
                ("kubelet", self.kubelets),
            )
            if count
        ]  # fmt: skip
        found += [f'taint "{name}": {count}' for name, count in self.taints.items()]
        found += [f'resource "{name}": {count}' for name, count in self.resources.items()]
        return f"Total nodes: {self.total}; excluded: {', '.join(sorted(found))}" if found else ""
