"""Kinds of nodes, one value for each: of tens of thousands of nodes few are made and configured differently."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast
from weakref import WeakKeyDictionary, ref

from zonewise_scheduler.admission.cpu_topology import CpuTopology
from zonewise_scheduler.admission.node import NodeKind

if TYPE_CHECKING:
    from collections.abc import Hashable

_Value = TypeVar("_Value", bound="Hashable")

_MOST_TUPLES = 1 << 16


class KindInterner:
    """Makes equal values one, so that they are kept once, and are compared by a glance.

    Kinds and topologies are kept for as long as any state has them. Not for use from several threads at once.
    """

    def __init__(self) -> None:
        self._kinds: WeakKeyDictionary[NodeKind, ref[NodeKind]] = WeakKeyDictionary()
        self._topologies: WeakKeyDictionary[CpuTopology, ref[CpuTopology]] = WeakKeyDictionary()
        self._tuples: dict[Hashable, Hashable] = {}

    def __len__(self) -> int:
        """Return how many kinds there are."""
        return len(self._kinds)

    def intern_kind(self, value: NodeKind) -> NodeKind:
        """Return the one kind that is equal."""
        return _one(self._kinds, value)

    def intern_topology(self, value: CpuTopology) -> CpuTopology:
        """Return the one topology that is equal."""
        return _one(self._topologies, value)

    def intern(self, value: _Value) -> _Value:
        """Return a part of a state that is equal; nearly all nodes that are idle or full have the same ones."""
        if len(self._tuples) >= _MOST_TUPLES:
            self._tuples.clear()  # they are only kept more than once then
        return cast("_Value", self._tuples.setdefault(value, value))


_Shared = TypeVar("_Shared", NodeKind, CpuTopology)


def _one(known: WeakKeyDictionary[_Shared, ref[_Shared]], made: _Shared) -> _Shared:
    found = known.get(made)
    one = found() if found is not None else None
    if one is None:
        known[made] = ref(made)
        return made
    return one
