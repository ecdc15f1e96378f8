"""The domains of a Topology's levels as arrays: those of a level are in the order of their values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.quota.topology.types import HOSTNAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
    from zonewise_scheduler.quota.topology.types import TopologyAssignment


@dataclass(frozen=True)
class TopologyTree:
    """Levels from the outermost to the leaves, and the rows that are in each leaf.

    A domain is its place among those of its level, which are sorted by the values of all levels down to it, compared as
    strings; so the children of a domain are neighbours, and a lower place wins a tie.
    """

    name: str
    """Of the Topology."""
    level_keys: tuple[str, ...]
    """Label keys, the outermost first."""
    values: tuple[tuple[str, ...], ...]
    """By level: the label's value of each domain."""
    parents: tuple[NDArray[np.int64], ...]
    """By level but the outermost, which has an empty array: the domain one level out."""
    child_offsets: tuple[NDArray[np.int64], ...]
    """By level but the innermost: the first child of each domain, and at last the number of all children."""
    rows: NDArray[np.int64]
    """Rows in the order of their leaves."""
    leaf_offsets: NDArray[np.int64]
    """(leaves,): the place in members of the leaf's first row."""

    @property
    def leaf_count(self) -> int:
        """Return how many leaves there are."""
        return len(self.values[-1])

    @property
    def is_lowest_level_node(self) -> bool:
        """Tell whether a leaf is a node."""
        return self.level_keys[-1] == HOSTNAME

    @property
    def assignment_levels(self) -> tuple[str, ...]:
        """Return the levels whose values name a leaf in an assignment: the hostname is enough."""
        return self.level_keys[-1:] if self.is_lowest_level_node else self.level_keys

    def level_values(self, level: int, domain: int) -> tuple[str, ...]:
        """Return the values of a domain, the outermost level's first."""
        found: list[str] = []
        for at in range(level, -1, -1):
            found.append(self.values[at][domain])
            domain = int(self.parents[at][domain]) if at else domain
        return tuple(reversed(found))

    def leaf_values(self, leaf: int) -> tuple[str, ...]:
        """Return the values that name a leaf in an assignment."""
        return (
            (self.values[-1][leaf],) if self.is_lowest_level_node else self.level_values(len(self.level_keys) - 1, leaf)
        )

    def find_leaf(self, values: tuple[str, ...]) -> int | None:
        """Return the leaf of such values, or None."""
        return self._by_name.get(values[-1:] if self.is_lowest_level_node else values)

    def ancestor(self, leaf: int, level: int) -> int:
        """Return the domain of a level that a leaf is in."""
        for at in range(len(self.level_keys) - 1, level, -1):
            leaf = int(self.parents[at][leaf])
        return leaf

    def leaf_range(self, level: int, domain: int) -> tuple[int, int]:
        """Return the range of leaves in a domain."""
        return self.descendant_ranges(level, domain, domain + 1)[-1]

    def descendant_ranges(self, level: int, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges of domains in a range of domains, by level from that one on."""
        found = [(begin, end)]
        for begins in self.child_offsets[level:]:
            begin, end = int(begins[begin]), int(begins[end])
            found.append((begin, end))
        return found

    def lower_level_domains(self, level: int, domains: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the domains one level in of some domains, in ascending order."""
        chosen = np.zeros(len(self.values[level]), np.bool_)
        chosen[domains] = True
        return np.flatnonzero(chosen[self.parents[level + 1]])

    def stale_domain(self, assignment: TopologyAssignment) -> str:
        """Return the outermost value of the first domain of an assignment that is no more; "": all are there."""
        return next((domain.values[0] for domain in assignment.domains if self.find_leaf(domain.values) is None), "")

    @cached_property
    def _by_name(self) -> dict[tuple[str, ...], int]:
        return {self.leaf_values(leaf): leaf for leaf in range(self.leaf_count)}


def topology_tree_from_nodes(
    name: str, level_keys: Sequence[str], nodes: NodeInfoTable, rows: NDArray[np.bool_]
) -> TopologyTree:
    """Return the tree of some rows, (rows,), of those the ones that have all labels.

    Nodes with one hostname are one leaf, where the first of them is. Raises ValueError for a Topology without levels.
    """
    columns = [nodes.label_column(key) for key in level_keys]
    for column in columns:
        rows = rows & column.mask(lambda value: value is not None)
    members = np.flatnonzero(rows)
    return _built(
        name,
        level_keys,
        [(column.codes[members], [value or "" for value in column.values]) for column in columns],
        members,
    )


def topology_tree_from_paths(name: str, level_keys: Sequence[str], paths: Sequence[Sequence[str]]) -> TopologyTree:
    """Return the tree of leaves that are no nodes of a table, such as zones: a row is a place in the paths.

    Raises ValueError for a Topology without levels.
    """
    texts = [[path[level] for path in paths] for level in range(len(level_keys))]
    columns = [(np.arange(len(column)), column) for column in texts]
    return _built(name, level_keys, columns, np.arange(len(paths)))


def _built(
    name: str, keys: Sequence[str], columns: list[tuple[NDArray[np.int64], list[str]]], members: NDArray[np.int64]
) -> TopologyTree:
    """Return the tree of members by their values, as codes and what these stand for, by level."""
    if not keys:
        raise ValueError("topology: no levels")
    ranks = [_ranks(texts)[codes] for codes, texts in columns]
    codes = [codes for codes, _ in columns]
    order = np.lexsort(ranks[::-1])
    if keys[-1] == HOSTNAME:
        _, first, again = np.unique(ranks[-1][order], return_index=True, return_inverse=True)
        same = np.empty_like(order)
        same[order] = order[first[again]]
        ranks, codes = [rank[same] for rank in ranks], [code[same] for code in codes]
        order = np.lexsort(ranks[::-1])
    changes = np.arange(len(members)) == 0
    values: list[tuple[str, ...]] = []
    firsts: list[NDArray[np.int64]] = []
    for rank, code, (_, texts) in zip(ranks, codes, columns, strict=True):
        changes[1:] |= np.diff(rank[order]) != 0
        firsts.append(np.flatnonzero(changes))
        shown: list[int] = code[order[firsts[-1]]].tolist()
        values.append(tuple(texts[one] for one in shown))
    begins = [np.append(np.searchsorted(inner, outer), len(inner)) for outer, inner in pairwise(firsts)]
    parents = [np.repeat(np.arange(len(one) - 1), np.diff(one)) for one in begins]
    return TopologyTree(
        name, tuple(keys), tuple(values), (np.zeros(0, np.int64), *parents), tuple(begins), members[order], firsts[-1]
    )


def _ranks(texts: list[str]) -> NDArray[np.int64]:
    """Return the place of each text among all, equal ones alike."""
    places = {text: place for place, text in enumerate(sorted(set(texts)))}
    return np.array([places[text] for text in texts], np.int64)
