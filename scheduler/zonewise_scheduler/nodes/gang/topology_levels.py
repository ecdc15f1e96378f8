"""The topology that gangs are placed in: domains within domains, by labels of nodes, such as block, rack and host."""

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
"""Numbers of names up to so many digits compare as numbers."""


class TopologyLevels(NamedTuple):
    """Rows in the order of the tree: a domain of any level is a range of positions in this order."""

    keys: tuple[str, ...]
    """Label keys, the outermost first."""
    order: NDArray[np.int64]
    """(rows,): the row at each position."""
    bounds: tuple[NDArray[np.int64], ...]
    """By level: the first position of each domain, and at last the number of rows."""
    labelled: NDArray[np.bool_]
    """(levels, rows), by position: the node has the label; those that lack it are together in a domain that is none."""

    def domains(self, level: int, begin: int, end: int) -> NDArray[np.int64]:
        """Return the first positions of a level's domains in a range of whole domains, and at last its end."""
        first, last = np.searchsorted(self.bounds[level], (begin, end))
        return self.bounds[level][first : last + 1]


def build_levels(nodes: NodeInfoTable, keys: Sequence[str]) -> TopologyLevels:
    """Return the levels by label keys, the outermost first.

    Domains with one name in different outer domains are different. Domains, and nodes in the innermost ones, are in the
    order of their names, numbers in these as numbers: rack-9 is before rack-10.
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
    has = [~nodes.label_column(key).mask(_is_none)[order] for key in keys]
    return TopologyLevels(tuple(keys), order, tuple(bounds), np.array(has, np.bool_).reshape(len(keys), rows))


def _ranks(names: Sequence[str | None]) -> NDArray[np.int64]:
    """Return the place of each name among all, equal ones alike; None is last."""
    places = {name: place for place, name in enumerate(sorted(set(names), key=_natural))}
    return np.array([places[name] for name in names], np.int64)


def _natural(name: str | None) -> tuple[bool, str, str]:
    """Return a key that compares numbers in names as numbers; the name itself decides between 1 and 01."""
    return (True, "", "") if name is None else (False, _NUMBERS.sub(_padded, name), name)


def _padded(number: re.Match[str]) -> str:
    return number[0].lstrip("0").zfill(_DIGITS)


def _is_none(value: str | None) -> bool:
    return value is None
