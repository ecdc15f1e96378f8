"""The usage of leaves, by flavor and resource.

Changes are recorded leaf by leaf outside the arrays, and written into them when a caller requests the arrays. So the
cost of a trial that is undone depends only on its own leaves. A copy shares the arrays until one of the two writes.
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

_BATCH_SIZE = 1024
"""If more leaves than this change, the changes are written into the arrays immediately."""


class LeafUsageChange(NamedTuple):
    """The usage of one resource that pods add to the leaves of one flavor."""

    flavor: str
    resource: str
    leaves: tuple[int, ...]
    """Distinct leaves."""
    amounts: tuple[int, ...]
    """A positive amount for each leaf, in milli-CPU, bytes or counts."""


class _FlavorUsage:
    """The usage of one flavor's leaves."""

    __slots__ = ("leaf_count", "pending", "shared", "usage", "version")

    def __init__(self, leaf_count: int, version: int) -> None:
        self.leaf_count = leaf_count
        self.version = version
        self.usage: TASUsage = {}
        self.shared = False
        """Whether a copy shares the arrays."""
        self.pending: dict[str, dict[int, int]] = {}
        """By resource and leaf: amounts to be added to the arrays."""

    def copy(self) -> _FlavorUsage:
        self.shared = True
        copied = copy(self)
        copied.usage = dict(self.usage)
        copied.pending = {resource: dict(amounts) for resource, amounts in self.pending.items()}
        return copied

    def unshare(self) -> None:
        """Copy the arrays if they are shared."""
        if self.shared:
            self.usage = {resource: amounts.copy() for resource, amounts in self.usage.items()}
            self.shared = False

    def writable_array(self, resource: str) -> NDArray[np.int64]:
        """Return the array of a resource; the arrays must not be shared."""
        if resource not in self.usage:
            self.usage[resource] = np.zeros(self.leaf_count, np.int64)
        return self.usage[resource]


class LeafUsage:
    """The usage of the leaves of all flavors; it changes in place."""

    def __init__(self, leaf_counts: Mapping[str, int]) -> None:
        """Start without usage; `leaf_counts`: number of leaves by flavor."""
        self._versions = count()
        self._flavors = {flavor: _FlavorUsage(size, next(self._versions)) for flavor, size in leaf_counts.items()}

    def copy(self) -> LeafUsage:
        """Return an independent copy."""
        copied = copy(self)
        copied._flavors = {name: flavor.copy() for name, flavor in self._flavors.items()}
        return copied

    def apply(self, changes: Collection[LeafUsageChange], sign: int = 1) -> None:
        """Add the usage of pods; with sign -1, remove it."""
        if sum(len(change.leaves) for change in changes) > _BATCH_SIZE:
            self._apply_batch(changes, sign)
            return
        for flavor, resource, leaves, amounts in changes:
            pending = self._flavors[flavor].pending.setdefault(resource, {})
            for leaf, amount in zip(leaves, amounts, strict=True):
                pending[leaf] = pending.get(leaf, 0) + sign * amount

    def fits(self, change: LeafUsageChange, free_capacity: NDArray[np.int64]) -> bool:
        """Return whether a change fits on top of the current usage; `free_capacity`: of its resource, (leaves,)."""
        flavor = self._flavors[change.flavor]
        usage, pending = flavor.usage.get(change.resource), flavor.pending.get(change.resource, {})
        for leaf, amount in zip(change.leaves, change.amounts, strict=True):
            used = pending.get(leaf, 0) if usage is None else usage.item(leaf) + pending.get(leaf, 0)
            if free_capacity.item(leaf) - used < amount:
                return False
        return True

    def usage(self, flavor: str) -> TASUsage:
        """Return the usage of a flavor's leaves; valid until the next change."""
        return self._write_pending(flavor).usage

    def version(self, flavor: str) -> int:
        """Return a number that changes whenever the usage does; copies with the same number are equal."""
        return self._write_pending(flavor).version

    def _write_pending(self, name: str) -> _FlavorUsage:
        """Write a flavor's pending changes into its arrays, and return the flavor."""
        flavor = self._flavors[name]
        pending, flavor.pending = flavor.pending, {}
        for resource, amounts in pending.items():
            nonzero = {leaf: amount for leaf, amount in amounts.items() if amount}
            if nonzero:
                flavor.unshare()
                flavor.version = next(self._versions)
                flavor.writable_array(resource)[list(nonzero)] += list(nonzero.values())
        return flavor

    def _apply_batch(self, changes: Iterable[LeafUsageChange], sign: int) -> None:
        changes_by_array: dict[tuple[str, str], list[LeafUsageChange]] = {}
        for change in changes:
            changes_by_array.setdefault((change.flavor, change.resource), []).append(change)
        for (name, resource), of_array in changes_by_array.items():
            flavor = self._write_pending(name)
            flavor.unshare()
            flavor.version = next(self._versions)
            leaves = np.fromiter(chain.from_iterable(change.leaves for change in of_array), np.int64)
            amounts = np.fromiter(chain.from_iterable(change.amounts for change in of_array), np.int64)
            np.add.at(flavor.writable_array(resource), leaves, sign * amounts)
