"""The order, leaves and rows of topology trees."""

from __future__ import annotations

import numpy as np
import pytest

from support.tas_trees import all_rows, node_object, node_table, topology_tree_from_paths
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.tas.snapshot.flavor_snapshot import NodeTASFlavorSnapshot
from zonewise_scheduler.tas.tree.topology_tree import topology_tree_from_nodes


def test_domains_are_sorted_by_their_values() -> None:
    """Values are compared as strings. Racks with the same name in different blocks are different domains."""
    paths = [("b", "rack-9"), ("a", "rack-9"), ("a", "rack-10")]
    tree = topology_tree_from_paths("t", ["block", "rack"], paths)
    assert tree.values == (("a", "b"), ("rack-10", "rack-9", "rack-9"))
    assert [tree.level_values(1, leaf) for leaf in range(tree.leaf_count)] == sorted(paths)
    assert tree.rows.tolist() == [2, 1, 0]
    assert [tree.find_leaf(path) for path in sorted(paths)] == [0, 1, 2]
    assert tree.find_leaf(("b", "rack-10")) is None
    assert tree.leaf_range(0, 0) == (0, 2)
    assert tree.ancestor(2, 0) == 1
    assert tree.lower_level_domains(0, np.array([1])).tolist() == [2]


def test_node_without_a_label_is_not_a_leaf() -> None:
    nodes = node_table(
        node_object("n1", {"rack": "x", HOSTNAME: "n1"}),
        node_object("n2", {HOSTNAME: "n2"}),
        node_object("n3", {"rack": "x"}),
    )
    tree = topology_tree_from_nodes("t", ["rack", HOSTNAME], nodes, all_rows(nodes))
    assert (tree.rows.tolist(), tree.values) == ([0], (("x",), ("n1",)))


def test_nodes_with_one_hostname_are_one_leaf() -> None:
    """The leaf is in the domain of the first node and has the capacity of both nodes."""
    nodes = node_table(
        node_object("n1", {"rack": "y", HOSTNAME: "h"}, "2"), node_object("n2", {"rack": "x", HOSTNAME: "h"}, "3")
    )
    tree = topology_tree_from_nodes("t", ["rack", HOSTNAME], nodes, all_rows(nodes))
    assert tree.values == (("x",), ("h",))
    assert NodeTASFlavorSnapshot(tree, nodes).remaining_capacity("cpu").tolist() == [5000]


def test_topology_without_levels() -> None:
    with pytest.raises(ValueError, match="topology: no levels"):
        topology_tree_from_paths("t", [], [])
