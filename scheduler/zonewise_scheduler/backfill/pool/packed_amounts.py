"""Amounts of several resources packed into one integer, so that three operations check whether a job fits.

Every resource has a field of the same number of bits. Available amounts carry a bias in each field: its second-highest
bit. A job fits if `(available - job.request) & job.guards == job.guards`:

1. A field that falls below zero borrows from its own bias, never from its neighbour.
2. So the bias bit shows whether the field is zero or more.
3. Only the fields that the job requests are checked. A resource that it does not request may be overcommitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WIDE_BITS = 64
"""For bytes of memory on any number of nodes: amounts below 2^60."""
NARROW_BITS = 30
"""For counts below 2^26: a field is then one digit of a Python integer, which is twice as fast."""


class PackedRequest(NamedTuple):
    """The request of a job."""

    amount: int
    guards: int
    """The bias bits of the fields of which the job requests more than zero."""


class ResourcePacking:
    """The resources, each of some pool ("processors", "on-demand/cpu"), in the order of their fields."""

    __slots__ = ("_bias", "_field_mask", "_limit", "_shifts", "names")

    def __init__(self, names: Iterable[str], bits: int = WIDE_BITS) -> None:
        self.names = tuple(names)
        self._shifts = {name: index * bits for index, name in enumerate(self.names)}
        self._field_mask, self._bias, self._limit = (1 << bits) - 1, 1 << bits - 2, 1 << bits - 4

    def pack_request(self, amounts: Mapping[str, int]) -> PackedRequest:
        """Pack what a job requests; raise ValueError for an unknown resource or an amount out of range."""
        amount = guards = 0
        for name, size in amounts.items():
            shift = self._shift(name, size, 0)
            amount |= size << shift
            guards |= (self._bias if size else 0) << shift
        return PackedRequest(amount, guards)

    def pack_available(self, amounts: Mapping[str, int]) -> int:
        """Pack what is available; an overcommitted resource is negative.

        Raises ValueError for an unknown resource, a missing one (unknown is not zero), or an amount out of range.
        """
        if missing := [name for name in self.names if name not in amounts]:
            raise ValueError(f"available: {', '.join(missing)} missing")
        return sum((size + self._bias) << self._shift(name, size, -self._limit) for name, size in amounts.items())

    def unpack_available(self, available: int) -> dict[str, int]:
        """Return packed available amounts by resource."""
        return {name: (available >> shift & self._field_mask) - self._bias for name, shift in self._shifts.items()}

    def _shift(self, name: str, size: int, least: int) -> int:
        if name not in self._shifts:
            raise ValueError(f"{name}: no such resource; there are {', '.join(self.names)}")
        if not least <= size < self._limit:
            raise ValueError(f"{name}: {size} is not between {least} and {self._limit - 1}")
        return self._shifts[name]
