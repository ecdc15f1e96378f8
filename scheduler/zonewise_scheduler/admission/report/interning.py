"""Interning of node kinds: even tens of thousands of nodes have only a few different builds and configurations."""

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
    """Replaces equal values with a single one, which saves memory and makes comparisons fast.

    Kinds and topologies are retained as long as any state refers to them. The class is not thread-safe.
    """

    def __init__(self) -> None:
        self._kinds: WeakKeyDictionary[NodeKind, ref[NodeKind]] = WeakKeyDictionary()
        self._topologies: WeakKeyDictionary[CpuTopology, ref[CpuTopology]] = WeakKeyDictionary()
        self._tuples: dict[Hashable, Hashable] = {}

    def __len__(self) -> int:
        """Return the number of interned kinds."""
        return len(self._kinds)

    def intern_kind(self, value: NodeKind) -> NodeKind:
        """Return the interned kind that equals `value`."""
        return _interned(self._kinds, value)

    def intern_topology(self, value: CpuTopology) -> CpuTopology:
        """Return the interned topology that equals `value`."""
        return _interned(self._topologies, value)

    def intern(self, value: _Value) -> _Value:
        """Return the interned equal of a part of a state; nearly all idle or full nodes have the same parts."""
        if len(self._tuples) >= _MOST_TUPLES:
            self._tuples.clear()  # equal parts then exist more than once, which costs only memory
        return cast("_Value", self._tuples.setdefault(value, value))


_Shared = TypeVar("_Shared", NodeKind, CpuTopology)


def _interned(values: WeakKeyDictionary[_Shared, ref[_Shared]], value: _Shared) -> _Shared:
    reference = values.get(value)
    interned = reference() if reference is not None else None
    if interned is None:
        values[value] = ref(value)
        return value
    return interned
