"""CPUID from the kernel's device: only leaves that the processor has, and nothing if it cannot be read."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pytest

from zonewise.machine.collectors.cpu.cpuid_device import known_leaves, read_cpuid

if TYPE_CHECKING:
    from collections.abc import Callable


def processor(highest: int, highest_extended: int) -> Callable[[int], bytes]:
    """Return the read function of a processor that repeats its highest leaf for higher numbers."""

    def read_at(position: int) -> bytes:
        leaf, subleaf = position & 0xFFFFFFFF, position >> 32
        top = highest_extended if leaf >= 0x80000000 else highest
        return struct.pack("<4I", top if leaf in (0, 0x80000000) else min(leaf, top), subleaf, 3, 4)

    return read_at


LOW = [(7, 0), (7, 1), (7, 2)]


@pytest.mark.parametrize(
    ("highest", "extended", "leaves"),
    [
        (0x1C, 0x80000021, [*LOW, (0xA, 0), (0x12, 0), *((0x80000000 + n, 0) for n in (7, 8, 26, 27, 31, 33))]),
        (0x7, 0x80000008, [*LOW, (0x80000007, 0), (0x80000008, 0)]),
        (0x1, 0x80000000, []),
    ],
)
def test_known_leaves(highest: int, extended: int, leaves: list[tuple[int, int]]) -> None:
    """A leaf beyond the highest one would have the content of another leaf."""
    read = known_leaves(processor(highest, extended))
    assert [(leaf.leaf, leaf.subleaf) for leaf in read] == leaves
    assert all((leaf.eax, leaf.ebx, leaf.ecx, leaf.edx) == (leaf.leaf, leaf.subleaf, 3, 4) for leaf in read)


def test_a_cpu_that_cannot_be_read() -> None:
    assert read_cpuid(1 << 20) == ()


@pytest.mark.skipif(not os.access("/dev/cpu/0/cpuid", os.R_OK), reason="/dev/cpu/0/cpuid cannot be read here")
def test_this_machine() -> None:
    """The leaves are in order, and two reads are equal."""
    assert read_cpuid(0) == read_cpuid(0)
    assert read_cpuid(0)
