"""Sets as the bits of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def lowest_bits(bits: int, count: int) -> int:
    """Return the count lowest members of a set; all of it where there are no more."""
    if count < 1 or bits.bit_count() <= count:
        return bits if count > 0 else 0
    short, enough = 0, bits.bit_length()  # the lowest `short` places hold less than count members
    while enough - short > 1:
        middle = (short + enough) // 2
        if (bits & (1 << middle) - 1).bit_count() < count:
            short = middle
        else:
            enough = middle
    return bits & (1 << enough) - 1


def single_bits(bits: int) -> Iterator[int]:
    """Yield the members of a set, ascending, each as a set of one."""
    while bits:
        yield bits & -bits
        bits &= bits - 1
