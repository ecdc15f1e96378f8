"""What pods use of the leaves of each flavor.

What is written is set down beside the arrays, leaf by leaf, and written into them when somebody asks for these. So what
is tried out and undone costs no more than the leaves that it is about, and so does a copy: it shares the arrays until
one of the two has to write.
"""

from __future__ import annotations

from copy import copy
from itertools import chain, count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.tas.tree.tas_usage import TASUsage

_MANY = 1024
"""Leaves that are better written at once into the arrays."""


class LeafUsageChange(NamedTuple):
    """What pods take of one resource in the leaves of one flavor."""

    flavor: str
    resource: str
    leaves: tuple[int, ...]
    """Each once."""
    amounts: tuple[int, ...]
    """By leaf: milli-CPU, bytes, counts; more than 0."""


class _Page:
    """One flavor's."""

    __slots__ = ("changes", "leaves", "shared", "stamp", "usage")

    def __init__(self, leaves: int, stamp: int) -> None:
        self.leaves = leaves
        self.stamp = stamp
        self.usage: TASUsage = {}
        self.shared = False
        """Others have these arrays too."""
        self.changes: dict[str, dict[int, int]] = {}
        """By resource and leaf: what is used beyond that."""

    def copy(self) -> _Page:
        self.shared = True
        other = copy(self)
        other.usage = dict(self.usage)
        other.changes = {name: dict(changes) for name, changes in self.changes.items()}
        return other

    def own(self) -> None:
        """Have arrays of its own."""
        if self.shared:
            self.usage = {name: amounts.copy() for name, amounts in self.usage.items()}
            self.shared = False

    def array(self, name: str) -> NDArray[np.int64]:
        """Return the array of a resource, to be written."""
        if name not in self.usage:
            self.usage[name] = np.zeros(self.leaves, np.int64)
        return self.usage[name]


class LeafUsage:
    """What is used, by flavor and resource; it changes in place."""

    def __init__(self, leaves: Mapping[str, int]) -> None:
        """Take how many leaves each flavor has."""
        self._stamps = count()
        self._pages = {flavor: _Page(size, next(self._stamps)) for flavor, size in leaves.items()}

    def copy(self) -> LeafUsage:
        """Return others that change on their own."""
        other = copy(self)
        other._pages = {flavor: page.copy() for flavor, page in self._pages.items()}
        return other

    def apply(self, changes: Collection[LeafUsageChange], sign: int = 1) -> None:
        """Take note of pods that come, or with sign -1 go."""
        if sum(len(one.leaves) for one in changes) > _MANY:
            self._write_many(changes, sign)
            return
        for flavor, resource, leaves, amounts in changes:
            found = self._pages[flavor].changes.setdefault(resource, {})
            for leaf, amount in zip(leaves, amounts, strict=True):
                found[leaf] = found.get(leaf, 0) + sign * amount

    def fits(self, change: LeafUsageChange, free_capacity: NDArray[np.int64]) -> bool:
        """Tell whether there is room for more, where leaves have so much of the resource, (leaves,)."""
        page = self._pages[change.flavor]
        used, beyond = page.usage.get(change.resource), page.changes.get(change.resource, {})
        for leaf, amount in zip(change.leaves, change.amounts, strict=True):
            taken = beyond.get(leaf, 0) if used is None else used.item(leaf) + beyond.get(leaf, 0)
            if free_capacity.item(leaf) - taken < amount:
                return False
        return True

    def usage(self, flavor: str) -> TASUsage:
        """Return what is used by resource; good until the next change."""
        return self._settled(flavor).usage

    def version(self, flavor: str) -> int:
        """Return a number that is another whenever what is used is; copies that have the same are equal."""
        return self._settled(flavor).stamp

    def _settled(self, flavor: str) -> _Page:
        """Return a page with its changes written into the arrays."""
        page = self._pages[flavor]
        changes, page.changes = page.changes, {}
        for name, amounts in changes.items():
            left = {leaf: amount for leaf, amount in amounts.items() if amount}
            if left:
                page.own()
                page.stamp = next(self._stamps)
                page.array(name)[list(left)] += list(left.values())
        return page

    def _write_many(self, changes: Iterable[LeafUsageChange], sign: int) -> None:
        by_array: dict[tuple[str, str], list[LeafUsageChange]] = {}
        for one in changes:
            by_array.setdefault((one.flavor, one.resource), []).append(one)
        for (flavor, resource), found in by_array.items():
            page = self._settled(flavor)
            page.own()
            page.stamp = next(self._stamps)
            leaves = np.fromiter(chain.from_iterable(one.leaves for one in found), np.int64)
            amounts = np.fromiter(chain.from_iterable(one.amounts for one in found), np.int64)
            np.add.at(page.array(resource), leaves, sign * amounts)
