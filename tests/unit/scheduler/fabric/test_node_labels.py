"""Labels of nodes."""

from __future__ import annotations

import pytest

from support.fabrics import dump, fat_tree, read
from zonewise_scheduler.fabric.levels import FabricDomain, FabricLevels, fabric_levels
from zonewise_scheduler.fabric.matching import match_hosts
from zonewise_scheduler.fabric.node_labels import level_labels, node_labels
from zonewise_scheduler.fabric.types import FabricError

FABRIC = read(dump(fat_tree(units=2, hosts=1)))
LEVELS = fabric_levels(FABRIC, match_hosts(FABRIC.hcas).leaves)


def test_default_labels() -> None:
    """Level 0 is the closest one."""
    labels = level_labels(LEVELS)
    assert labels == ("zonewise.dev/fabric-tier-0", "zonewise.dev/fabric-tier-1")
    assert node_labels(LEVELS, labels) == {
        "node-0-0-0": {"zonewise.dev/fabric-tier-0": "leaf-0-0-0", "zonewise.dev/fabric-tier-1": "spine-0-0"},
        "node-0-1-0": {"zonewise.dev/fabric-tier-0": "leaf-0-1-0", "zonewise.dev/fabric-tier-1": "spine-0-0"},
    }


def test_other_labels() -> None:
    """Levels beyond the last label get none; labels beyond the last level are not used."""
    assert level_labels(LEVELS, ["a/leaf"]) == ("a/leaf",)
    assert node_labels(LEVELS, ["a/leaf"])["node-0-0-0"] == {"a/leaf": "leaf-0-0-0"}
    assert level_labels(LEVELS, ["a/leaf", "a/spine", "a/core"]) == ("a/leaf", "a/spine")


def test_more_levels_than_a_topology_may_have() -> None:
    """One of 16 levels is the node."""
    many = FabricLevels(((FabricDomain("a", frozenset(), ("n",)),),) * 16)
    with pytest.raises(FabricError, match="the fabric has 16 levels, and a Topology 16 with that of the node"):
        level_labels(many)
    assert len(level_labels(many, [f"a/{i}" for i in range(15)])) == 15
