"""Sets of CPUs as the bits of integers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.admission.cpumanager.accumulator import lowest_bits, single_bits


@given(st.integers(0, 1 << 300), st.sampled_from([-1, 0, 1]) | st.integers(2, 310))
def test_lowest_bits(bits: int, count: int) -> None:
    """The lowest members of a set are returned, up to the count."""
    members = [bit for bit in range(bits.bit_length()) if bits >> bit & 1]
    assert lowest_bits(bits, count) == sum(1 << bit for bit in members[: max(count, 0)])
    assert list(single_bits(bits)) == [1 << bit for bit in members]
