"""The topology for gang placement: nested domains by node labels, such as block, rack and host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable

_NUMBERS = re.compile(r"[0-9]+", re.ASCII)
_DIGITS = 20
"""Digit strings in names are compared as numbers up to this number of digits."""


class TopologyLevels(NamedTuple):
    """Rows in the order of the topology tree: a domain of any level is a range of positions in this order."""

    keys: tuple[str, ...]
    """Label keys, from the widest level to the narrowest."""
    order: NDArray[np.int64]
    """(rows,): the row at each position."""
    bounds: tuple[NDArray[np.int64], ...]
    """By level: the first position of each domain, followed by the number of rows."""
    labelled: NDArray[np.bool_]
    """(levels, rows), by position: whether the node has the label. Nodes without it share a range, but no domain."""

    def domains(self, level: int, begin: int, end: int) -> NDArray[np.int64]:
        """Return the first positions of a level's domains in a range of whole domains, followed by the range's end."""
        first, last = np.searchsorted(self.bounds[level], (begin, end))
        return self.bounds[level][first : last + 1]


def build_levels(nodes: NodeInfoTable, keys: Sequence[str]) -> TopologyLevels:
    """Return the levels for label keys, the widest first.

    Domains with the same name in different outer domains are distinct. Domains, and the nodes of the innermost ones,
    are sorted by name. Numbers in names are compared as numbers: rack-9 comes before rack-10.
    """
    rows = len(nodes)
    names = _ranks([None if info is None else info.name for info in nodes.infos])
    ranks: list[NDArray[np.int64]] = []
    for key in keys:
        column = nodes.label_column(key)
        ranks.append(_ranks(column.values)[column.codes])
    order = np.lexsort((names, *reversed(ranks))) if rows else np.zeros(0, np.int64)
    changes = np.zeros(max(rows - 1, 0), np.bool_)
    bounds: list[NDArray[np.int64]] = []
    for rank in ranks:
        changes = changes | (np.diff(rank[order]) != 0)
        bounds.append(np.concatenate([[0], np.flatnonzero(changes) + 1, [rows]]) if rows else np.zeros(1, np.int64))
    labelled = [~nodes.label_column(key).mask(_is_none)[order] for key in keys]
    return TopologyLevels(tuple(keys), order, tuple(bounds), np.array(labelled, np.bool_).reshape(len(keys), rows))


def _ranks(names: Sequence[str | None]) -> NDArray[np.int64]:
    """Return the rank of each name, equal for equal names; None is last."""
    ranks = {name: rank for rank, name in enumerate(sorted(set(names), key=natural_key))}
    return np.array([ranks[name] for name in names], np.int64)


def natural_key(name: str | None) -> tuple[bool, str, str]:
    """Return a sort key that compares numbers in names as numbers; the name itself decides between 1 and 01."""
    return (True, "", "") if name is None else (False, _NUMBERS.sub(_padded, name), name)


def _padded(number: re.Match[str]) -> str:
    return number[0].lstrip("0").zfill(_DIGITS)


def _is_none(value: str | None) -> bool:
    return value is None
