"""The labels of nodes that describe the levels of a fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.fabric.types import FabricError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.fabric.levels import FabricLevels

LABEL_PREFIX = "zonewise.dev/fabric-tier-"
"""Prefix of the default labels. The number of the level follows, 0 for the closest one."""
MAX_LEVELS = 16
"""Maximum number of levels of a Topology (kueue apis/kueue/v1beta2/topology_types.go TopologySpec)."""

Labels = dict[str, str]


def level_labels(levels: FabricLevels, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the label of each level, the closest first.

    `names` replaces the default labels; levels beyond its end get no label.
    """
    number = len(levels.levels)
    labels = tuple(names[:number]) if names else tuple(f"{LABEL_PREFIX}{level}" for level in range(number))
    if len(labels) >= MAX_LEVELS:
        raise FabricError(
            f"the fabric has {number} levels, and a Topology {MAX_LEVELS} with that of the node: name at most "
            f"{MAX_LEVELS - 1} labels with --labels"
        )
    return labels


def node_labels(levels: FabricLevels, labels: Sequence[str]) -> dict[str, Labels]:
    """Return the labels of each node, sorted by node."""
    by_node: dict[str, Labels] = {}
    for label, domains in zip(labels, levels.levels, strict=False):
        for domain in domains:
            for node in domain.nodes:
                by_node.setdefault(node, {})[label] = domain.name
    return dict(sorted(by_node.items()))
