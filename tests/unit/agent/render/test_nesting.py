"""Nesting of CPU sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.machine_parts import cpus
from zonewise.machine.model.cpu import Package
from zonewise.render.nesting import CpuGroup, NestedGroup, nest, remaining_cpus
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EVERYTHING = cpus("0-31")
GROUPS = st.lists(
    st.tuples(st.integers(0, 6), st.sets(st.integers(0, 31), min_size=1)).map(
        lambda drawn: CpuGroup(drawn[0], CpuSet(drawn[1]), Package(None, CpuSet(drawn[1])))
    ),
    max_size=12,
)


def group(rank: int, text: str) -> CpuGroup:
    """Return a group of some CPUs."""
    return CpuGroup(rank, cpus(text), Package(rank, cpus(text)))


def shape(nodes: Sequence[NestedGroup]) -> list[object]:
    """Return nodes as lists: ranks, CPUs and children."""
    return [([group.rank for group in node.groups], str(node.cpus), shape(node.children)) for node in nodes]


def all_nodes(nodes: Sequence[NestedGroup]) -> Iterator[NestedGroup]:
    """Yield every node of a tree."""
    for node in nodes:
        yield node
        yield from all_nodes(node.children)


def test_inclusion_decides_what_is_inside() -> None:
    """A zone of two packages contains them, although packages otherwise precede zones."""
    zone, first, second = group(4, "0-7"), group(2, "0-3"), group(2, "4-7")
    assert shape(nest(EVERYTHING, [first, second, zone])) == [
        ([4], "0-7", [([2], "0-3", []), ([2], "4-7", [])]),
    ]


def test_groups_with_the_same_cpus_are_one_node() -> None:
    """A package that is also a zone is one node, in which the package is named first."""
    assert shape(nest(EVERYTHING, [group(4, "0-3"), group(2, "0-3")])) == [([2, 4], "0-3", [])]


def test_overlapping_groups_are_split() -> None:
    """Of two overlapping groups, the larger is whole; the smaller is in two parts, inside and beside it."""
    assert shape(nest(EVERYTHING, [group(2, "0-5"), group(4, "4-7")])) == [
        ([2], "0-5", [([4], "4-5", [])]),
        ([4], "6-7", []),
    ]


@given(GROUPS)
def test_the_tree_follows_the_sets(groups: list[CpuGroup]) -> None:
    """Siblings are disjoint, children are inside their parent, and every group's CPUs are in nodes that name it."""
    tree = nest(EVERYTHING, groups)
    for node in [NestedGroup(EVERYTHING, (), tree), *all_nodes(tree)]:
        together = CpuSet()
        for child in node.children:
            assert child.cpus.isdisjoint(together)
            assert child.cpus <= node.cpus
            together |= child.cpus
        assert remaining_cpus(node.cpus, node.children) == node.cpus - together
    for group in groups:
        named = [node.cpus for node in all_nodes(tree) if any(thing is group for thing in node.groups)]
        assert CpuSet(cpu for held in named for cpu in held) == group.cpus


@given(GROUPS)
def test_no_two_nodes_have_the_same_cpus(groups: list[CpuGroup]) -> None:
    """The CPUs of a node identify it, so devices can find their box by them."""
    sets = [node.cpus for node in all_nodes(nest(EVERYTHING, groups))]
    assert len(sets) == len(set(sets))
