"""The tree of a Topology's domains, level by level, as arrays (pkg/cache/scheduler/tas_topology_tree.go)."""

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
    """The levels from the highest to the leaves, and the rows of each leaf.

    A domain is an index in its level. The domains of a level are sorted by the values of all levels down to that level,
    compared as strings. So the children of a domain are contiguous, and the lower index wins a tie.
    """

    name: str
    """Name of the Topology."""
    level_keys: tuple[str, ...]
    """Label keys, the highest level first."""
    values: tuple[tuple[str, ...], ...]
    """By level: the label value of each domain."""
    parents: tuple[NDArray[np.int64], ...]
    """By level: each domain's parent, an index in the level above; empty for the highest level."""
    child_offsets: tuple[NDArray[np.int64], ...]
    """By level, except the lowest: the first child of each domain; the last item is the total number of children."""
    rows: NDArray[np.int64]
    """Rows in the order of their leaves."""
    leaf_offsets: NDArray[np.int64]
    """(leaves,): index in `rows` of the leaf's first row."""

    @property
    def leaf_count(self) -> int:
        """Return the number of leaves."""
        return len(self.values[-1])

    @property
    def is_lowest_level_node(self) -> bool:
        """Return whether each leaf is a node."""
        return self.level_keys[-1] == HOSTNAME

    @property
    def assignment_levels(self) -> tuple[str, ...]:
        """Return the levels of a topology assignment: only the hostname, if it is the lowest level."""
        return self.level_keys[-1:] if self.is_lowest_level_node else self.level_keys

    def level_values(self, level: int, domain: int) -> tuple[str, ...]:
        """Return the values of a domain and its ancestors, the highest level first."""
        values: list[str] = []
        for i in range(level, -1, -1):
            values.append(self.values[i][domain])
            domain = int(self.parents[i][domain]) if i else domain
        return tuple(reversed(values))

    def leaf_values(self, leaf: int) -> tuple[str, ...]:
        """Return a leaf's values at the assignment levels."""
        if self.is_lowest_level_node:
            return (self.values[-1][leaf],)
        return self.level_values(len(self.level_keys) - 1, leaf)

    def find_leaf(self, values: tuple[str, ...]) -> int | None:
        """Return the leaf with these values at the assignment levels; None if there is none."""
        return self._leaf_by_values.get(values[-1:] if self.is_lowest_level_node else values)

    def ancestor(self, leaf: int, level: int) -> int:
        """Return the domain of a level that contains a leaf."""
        for i in range(len(self.level_keys) - 1, level, -1):
            leaf = int(self.parents[i][leaf])
        return leaf

    def leaf_range(self, level: int, domain: int) -> tuple[int, int]:
        """Return the half-open range of a domain's leaves."""
        return self.descendant_ranges(level, domain, domain + 1)[-1]

    def descendant_ranges(self, level: int, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the half-open ranges of the domains inside a range of domains, from its level down to the leaves."""
        ranges = [(begin, end)]
        for offsets in self.child_offsets[level:]:
            begin, end = int(offsets[begin]), int(offsets[end])
            ranges.append((begin, end))
        return ranges

    def lower_level_domains(self, level: int, domains: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the children of some domains of a level, in ascending order."""
        is_parent = np.zeros(len(self.values[level]), np.bool_)
        is_parent[domains] = True
        return np.flatnonzero(is_parent[self.parents[level + 1]])

    def stale_domain(self, assignment: TopologyAssignment) -> str:
        """Return the first value of an assignment's first domain that is not in the tree; "": all are in the tree."""
        return next((domain.values[0] for domain in assignment.domains if self.find_leaf(domain.values) is None), "")

    @cached_property
    def _leaf_by_values(self) -> dict[tuple[str, ...], int]:
        return {self.leaf_values(leaf): leaf for leaf in range(self.leaf_count)}


def topology_tree_from_nodes(
    name: str, level_keys: Sequence[str], nodes: NodeInfoTable, rows: NDArray[np.bool_]
) -> TopologyTree:
    """Return the tree of the nodes in a mask, (rows,), that have the labels of all levels.

    Nodes with the same hostname form one leaf, at the position of the first node. Raises ValueError for a Topology
    without levels.
    """
    columns = [nodes.label_column(key) for key in level_keys]
    for column in columns:
        rows = rows & column.mask(lambda value: value is not None)
    labelled = np.flatnonzero(rows)
    labelled_columns = [(column.codes[labelled], [value or "" for value in column.values]) for column in columns]
    return _build_tree(name, level_keys, labelled_columns, labelled)


def _build_tree(
    name: str, level_keys: Sequence[str], columns: list[tuple[NDArray[np.int64], list[str]]], rows: NDArray[np.int64]
) -> TopologyTree:
    """Return the tree of rows; `columns`: by level, a code for each row and the text of each code."""
    if not level_keys:
        raise ValueError("topology: no levels")
    ranks = [_rank(texts)[codes] for codes, texts in columns]
    codes = [codes for codes, _ in columns]
    order = np.lexsort(ranks[::-1])
    if level_keys[-1] == HOSTNAME:
        _, first_indices, inverse = np.unique(ranks[-1][order], return_index=True, return_inverse=True)
        representative = np.empty_like(order)
        representative[order] = order[first_indices[inverse]]
        ranks, codes = [rank[representative] for rank in ranks], [code[representative] for code in codes]
        order = np.lexsort(ranks[::-1])
    begins_domain = np.arange(len(rows)) == 0
    values: list[tuple[str, ...]] = []
    level_offsets: list[NDArray[np.int64]] = []
    for rank, code, (_, texts) in zip(ranks, codes, columns, strict=True):
        begins_domain[1:] |= np.diff(rank[order]) != 0
        level_offsets.append(np.flatnonzero(begins_domain))
        domain_codes: list[int] = code[order[level_offsets[-1]]].tolist()
        values.append(tuple(texts[domain_code] for domain_code in domain_codes))
    child_offsets = [np.append(np.searchsorted(lower, upper), len(lower)) for upper, lower in pairwise(level_offsets)]
    parents = [np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)) for offsets in child_offsets]
    return TopologyTree(
        name,
        tuple(level_keys),
        tuple(values),
        (np.zeros(0, np.int64), *parents),
        tuple(child_offsets),
        rows[order],
        level_offsets[-1],
    )


def _rank(texts: list[str]) -> NDArray[np.int64]:
    """Return the rank of each text in sorted order; equal texts have equal ranks."""
    ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return np.array([ranks[text] for text in texts], np.int64)
