"""Amounts of several resources in one integer, so that jobs are compared with what is free in three operations.

Every resource of every pool has a field of so many bits. What is free is kept with a bias in each field, its last bit
but one: a field that is short of something borrows from its own bias, never from its neighbour, and that bit says
whether the field is zero or more. So a job fits where `(room - job.demand) & job.guards == job.guards`. It is asked of
no field but those of the job, since what is overcommitted elsewhere is no hindrance to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WIDE_BITS = 64
"""Bits for bytes of memory on any number of nodes: amounts below 2^60."""
NARROW_BITS = 30
"""Bits for counts below 2^26: one such column is one digit of Python's integers, and twice as fast."""


class PackedRequest(NamedTuple):
    """What a job asks for."""

    amount: int
    guards: int
    """The bias of each field of which it asks for anything."""


class ResourcePacking:
    """The resources that are counted, each of some pool: "processors", "on-demand/cpu"; the fields in this order."""

    __slots__ = ("_bias", "_field", "_most", "_shifts", "names")

    def __init__(self, names: Iterable[str], bits: int = WIDE_BITS) -> None:
        self.names = tuple(names)
        self._shifts = {name: place * bits for place, name in enumerate(self.names)}
        self._field, self._bias, self._most = (1 << bits) - 1, 1 << bits - 2, 1 << bits - 4

    def pack_request(self, amounts: Mapping[str, int]) -> PackedRequest:
        """Return what a job asks for; raise ValueError for an unknown resource and a size that is none."""
        amount = guards = 0
        for name, size in amounts.items():
            shift = self._shift(name, size, 0)
            amount |= size << shift
            guards |= (self._bias if size else 0) << shift
        return PackedRequest(amount, guards)

    def pack_available(self, amounts: Mapping[str, int]) -> int:
        """Return what is free; less than nothing where more is taken than there is.

        Raises ValueError for an unknown resource, one that is missing (unknown is not zero), and a size that is none.
        """
        if missing := [name for name in self.names if name not in amounts]:
            raise ValueError(f"free: nothing is said of {', '.join(missing)}")
        return sum((size + self._bias) << self._shift(name, size, -self._most) for name, size in amounts.items())

    def unpack_available(self, available: int) -> dict[str, int]:
        """Return what is free, resource by resource."""
        return {name: (available >> shift & self._field) - self._bias for name, shift in self._shifts.items()}

    def unpack_request(self, request: int) -> dict[str, int]:
        """Return what a job asks for (Demand.amount), resource by resource."""
        return {name: request >> shift & self._field for name, shift in self._shifts.items()}

    def insufficient_resources(self, available: int, request: int, guards: int) -> tuple[str, ...]:
        """Return the resources of which there is less free than a job asks for."""
        lacking = guards & ~(available - request)
        return tuple(name for name, shift in self._shifts.items() if lacking >> shift & self._bias)

    def _shift(self, name: str, size: int, least: int) -> int:
        if name not in self._shifts:
            raise ValueError(f"{name}: no such resource; there are {', '.join(self.names)}")
        if not least <= size < self._most:
            raise ValueError(f"{name}: {size} is not between {least} and {self._most - 1}")
        return self._shifts[name]
