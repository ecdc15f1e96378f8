"""The domains of each level: named fabrics, and what holds for any fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fabrics import Cabling, cabling, dump, fat_tree, fat_trees, hca, read
from support.snapshots import ABSENT, SNAPSHOTS
from zonewise_common.k8s.labels import is_label_value
from zonewise_scheduler.fabric.ibnetdiscover import read_dumps
from zonewise_scheduler.fabric.levels import FabricLevels, fabric_levels
from zonewise_scheduler.fabric.matching import match_hosts
from zonewise_scheduler.fabric.text_lines import numbered_lines

if TYPE_CHECKING:
    from random import Random

    from zonewise_scheduler.fabric.types import NetworkFabric

REAL = SNAPSHOTS / "ibnetdiscover/example.out"


def levels(fabric: NetworkFabric) -> FabricLevels:
    return fabric_levels(fabric, match_hosts(fabric.hcas).leaves)


def of(tree: Cabling) -> FabricLevels:
    return levels(read(dump(tree)))


def sizes(result: FabricLevels) -> list[dict[str, int]]:
    """Return the number of nodes of each domain, for each level."""
    return [{domain.name: len(domain.nodes) for domain in level} for level in result.levels]


def parts(result: FabricLevels) -> list[set[frozenset[str]]]:
    """Return the sets of nodes of each level."""
    return [{frozenset(domain.nodes) for domain in level} for level in result.levels]


# --- named fabrics


def test_a_fat_tree_of_two_tiers() -> None:
    """A leaf has several spines; all leaves with common spines are one domain above it."""
    assert sizes(of(fat_tree(units=2, hosts=3))) == [{"leaf-0-0-0": 3, "leaf-0-1-0": 3}, {"spine-0-0": 6}]


def test_pods_are_a_level_below_the_cores() -> None:
    """A pod is what its spines connect; the core switches connect the pods."""
    result = of(fat_tree(pods=2, units=2, hosts=2))
    assert sizes(result)[1:] == [{"spine-0-0": 4, "spine-1-0": 4}, {"core-0": 8}]


def test_rails() -> None:
    """The leaves of all HCAs of a node form one domain, even if nothing but the nodes connects the rails."""
    assert sizes(of(fat_tree(units=2, rails=4, hosts=3))) == [{"leaf-0-0-0": 3, "leaf-0-1-0": 3}, {"spine-0-0": 6}]
    planes = [(hca(f"n{node}", rail), f"Sleaf{rail}") for node in range(3) for rail in range(4)]
    assert sizes(of(cabling(planes))) == [{"leaf0": 3}]


def test_planes_with_switches_of_their_own() -> None:
    """Each rail has its own spines. The units are one domain, although no switch connects all of their leaves."""
    cables = [
        cable
        for unit in range(2)
        for rail in range(2)
        for cable in (
            *((hca(f"n{unit}{node}", rail), f"Sleaf{unit}{rail}") for node in range(3)),
            (f"Sleaf{unit}{rail}", f"Sspine{rail}"),
        )
    ]
    assert sizes(of(cabling(cables))) == [{"leaf00": 3, "leaf10": 3}, {"spine0": 6}]


def test_a_node_without_one_of_its_rails_remains_in_its_domain() -> None:
    """A port that is down, or an HCA without a name, is no reason to place jobs apart; the node is reported."""
    tree = fat_tree(units=2, rails=4, hosts=3)
    result = of(cabling(cable for cable in tree.cables if cable[0] != hca("node-0-0-1", 2)))
    assert sizes(result)[0] == {"leaf-0-0-0": 3, "leaf-0-1-0": 3}
    assert result.partial == ("node-0-0-1",)


def test_a_wrong_cable_separates_one_node_and_joins_nothing() -> None:
    """The node is a domain of its own and is reported."""
    tree = fat_tree(units=2, rails=4, hosts=3)
    wrong = (hca("node-0-0-1", 2), "Sleaf-0-1-2")
    result = of(cabling(wrong if cable[0] == wrong[0] else cable for cable in tree.cables))
    assert sorted(map(len, parts(result)[0])) == [1, 2, 3]
    assert parts(result)[1] == parts(of(tree))[1]
    assert result.mixed == ("node-0-0-1",)


def test_the_larger_domain_has_the_name_of_the_switch() -> None:
    """One wrong cable changes no label of the other nodes, even if its leaves come first in the alphabet."""
    leaves = {"n1": ("b", "c"), "n2": ("b", "c"), "n3": ("b", "bb")}
    cables = [(hca(node, i), f"S{leaf}") for node, names in leaves.items() for i, leaf in enumerate(names)]
    [(name, nodes), (wrong, one)] = sizes(of(cabling(cables)))[0].items()
    assert (name, nodes, one) == ("b", 2, 1)
    assert wrong.startswith("b-")


def test_a_host_of_two_leaves_does_not_join_them() -> None:
    """A storage server with a port on each leaf is in neither of their domains."""
    tree = fat_tree(units=2, hosts=3)
    result = of(cabling([*tree.cables, (hca("storage", 0), "Sleaf-0-0-0"), (hca("storage", 1), "Sleaf-0-1-0")]))
    assert sorted(map(len, parts(result)[0])) == [1, 3, 3]


def test_a_part_of_two_equally_large_sets_belongs_to_neither() -> None:
    """Nothing is guessed."""
    leaves = {"a1": "ab", "a2": "ab", "b1": "ac", "b2": "ac", "x": "a"}
    cables = [(hca(node, i), f"S{leaf}") for node, names in leaves.items() for i, leaf in enumerate(names)]
    assert parts(of(cabling(cables)))[0] == {frozenset({"a1", "a2"}), frozenset({"b1", "b2"}), frozenset({"x"})}


def test_a_set_joins_only_one_with_more_nodes() -> None:
    """Of two nodes, neither shows which of them lacks a cable. Of three, two do."""
    cables = [(hca("x", 0), "Sa"), (hca("y", 0), "Sa"), (hca("y", 1), "Sb")]
    assert parts(of(cabling(cables)))[0] == {frozenset({"x"}), frozenset({"y"})}
    assert of(cabling(cables)).mixed == ("x", "y")
    more = [(hca("z", 0), "Sa"), (hca("z", 1), "Sb")]
    assert parts(of(cabling([*cables, *more])))[0] == {frozenset({"x", "y", "z"})}


def test_small_and_large_parts_join_the_same_set() -> None:
    """A node with one of three leaves, nodes with two of them, and those with all are one domain."""
    leaves = {"x": "a", "y1": "ab", "y2": "ab", "z1": "abc", "z2": "abc", "z3": "abc"}
    cables = [(hca(node, i), f"S{leaf}") for node, names in leaves.items() for i, leaf in enumerate(names)]
    assert parts(of(cabling(cables)))[0] == {frozenset(leaves)}


def test_a_host_on_a_spine_changes_nothing_for_the_others() -> None:
    """A manager of the fabric is often connected to a spine, which then has a node like a leaf."""
    tree = fat_tree(pods=2, units=2, hosts=2)
    result = of(cabling([*tree.cables, (hca("manager", 0), "Sspine-0-0")]))
    without = [{part - {"manager"} for part in level} - {frozenset()} for level in parts(result)]
    assert without[:3] == parts(of(tree))


def test_the_groups_of_a_dragonfly() -> None:
    """Spines are connected to each other. The groups remain a level below the whole fabric."""
    tree = fat_tree(pods=3, units=2, hosts=2)
    cables = [cable for cable in tree.cables if "core" not in cable[1]]
    spines = [f"Sspine-{pod}-0" for pod in range(3)]
    result = of(cabling([*cables, *((one, two) for one in spines for two in spines if one < two)]))
    assert [len(level) for level in result.levels] == [6, 3, 1]


def test_a_ring_of_switches() -> None:
    """All switches have nodes: level 0 is the switch, level 1 all of them."""
    cables = [(hca(f"n{i}", 0), f"Sring{i}") for i in range(5)]
    assert sizes(of(cabling([*cables, *((f"Sring{i}", f"Sring{(i + 1) % 5}") for i in range(5))]))) == [
        {f"ring{i}": 1 for i in range(5)},
        {"ring0": 5},
    ]


def test_fabrics_without_a_link_between_them() -> None:
    """Each of them is a domain of the top level."""
    tree, island = fat_tree(units=2), fat_tree(units=2)
    cables = [(one.replace("0-", "9-", 1), two.replace("0-", "9-", 1)) for one, two in island.cables]
    assert [len(level) for level in of(cabling([*tree.cables, *cables])).levels] == [4, 2]


def test_the_number_of_levels_does_not_depend_on_the_nodes() -> None:
    """A cluster may have nodes of one leaf only, and later others. Its Topology and its labels remain as they are."""
    fabric = read(dump(fat_tree(pods=2, units=2, rails=2, hosts=2)))
    leaves = match_hosts(fabric.hcas).leaves
    result = fabric_levels(fabric, leaves)
    for node in leaves:
        alone = fabric_levels(fabric, {node: leaves[node]})
        names = [next(domain.name for domain in level if node in domain.nodes) for level in result.levels]
        assert [[domain.name for domain in level] for level in alone.levels] == [[name] for name in names]


def test_no_node() -> None:
    """Switches alone have no levels."""
    assert of(cabling([("Sa", "Sb")])) == FabricLevels(())


@pytest.mark.skipif(not REAL.exists(), reason=ABSENT)
def test_a_real_cluster() -> None:
    """Eight racks of 18 nodes with 4 rails each; some HCAs have no name yet, and one rack lacks a leaf."""
    with REAL.open("rb") as file:
        result = levels(read_dumps([("example", numbered_lines(file, "example"))]))
    racks = {"a05-p1-dgx-01", "a06-p1-dgx-02", "a07-p1-dgx-03", "a08-p1-dgx-04"}
    racks |= {"b05-p1-dgx-05", "b06-p1-dgx-06", "b07-p1-dgx-07", "b08-p1-dgx-08"}
    of_domains = [{node.rpartition("-")[0] for node in domain.nodes if "dgx" in node} for domain in result.levels[0]]
    assert sorted(of_domains, key=min) == [{rack} for rack in sorted(racks)]
    assert [len(level) for level in result.levels] == [8, 1]


# --- any fabric


@given(fat_trees())
def test_each_node_is_in_one_domain_of_each_level_and_levels_nest(tree: Cabling) -> None:
    """The labels of nodes form a tree. Names are unique in a level and valid as label values."""
    fabric = read(dump(tree))
    leaves = match_hosts(fabric.hcas).leaves
    result = levels(fabric)
    assert bool(result.levels) == bool(leaves)
    for level in result.levels:
        assert sorted(node for domain in level for node in domain.nodes) == sorted(leaves)
        assert len({domain.name for domain in level}) == len(level)
        assert all(is_label_value(domain.name) for domain in level)
    for lower, upper in zip(parts(result), parts(result)[1:], strict=False):
        assert all(any(part <= whole for whole in upper) for part in lower)
        assert len(upper) <= len(lower)


@given(fat_trees(), st.integers(1, 1000))
def test_the_order_of_the_dump_and_guids_do_not_matter(tree: Cabling, seed: int) -> None:
    """The same cables give the same domains with the same names."""
    result, shuffled = levels(read(dump(tree))), levels(read(dump(tree, seed)))
    assert sizes(result) == sizes(shuffled)
    assert parts(result) == parts(shuffled)


@given(fat_trees(), st.randoms(use_true_random=False))
def test_other_names_of_switches_give_the_same_sets(tree: Cabling, random: Random) -> None:
    """Only the names of domains depend on those of switches."""
    switches = sorted(name for name in tree.descriptions if name.startswith("S"))
    names = random.sample(switches, len(switches))
    renamed = dict(zip(switches, names, strict=True))
    cables = [(renamed.get(one, one), renamed.get(two, two)) for one, two in tree.cables]
    assert parts(of(cabling(cables))) == parts(of(tree))


@given(fat_trees())
def test_nodes_with_the_same_leaves_share_all_domains(tree: Cabling) -> None:
    """And nodes of one domain of the lowest level share a leaf with a node that has all leaves of the domain."""
    fabric = read(dump(tree))
    leaves = match_hosts(fabric.hcas).leaves
    result = levels(fabric)
    for level in result.levels:
        domains = {node: domain.name for domain in level for node in domain.nodes}
        by_leaves: dict[frozenset[str], set[str]] = {}
        for node, own in leaves.items():
            by_leaves.setdefault(own, set()).add(domains[node])
        assert all(len(names) == 1 for names in by_leaves.values())
    for domain in result.levels[0] if result.levels else ():
        assert any(leaves[node] == domain.leaves for node in domain.nodes)
        assert all(leaves[node] <= domain.leaves for node in domain.nodes)
