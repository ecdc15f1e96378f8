"""Reads CPUID through the kernel's device /dev/cpu/N/cpuid, if the module `cpuid` is loaded and permissions allow it.

A read of 16 bytes at a leaf executes the instruction on that CPU; the upper half of the position is the subleaf
(arch/x86/kernel/cpuid.c). Root may read it. A container needs the device as well.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from zonewise.machine.model.cpu import CpuidLeaf

if TYPE_CHECKING:
    from collections.abc import Callable

_EXTENDED = 0x80000000
_LEAVES = (
    (0x7, 0), (0x7, 1), (0x7, 2), (0xA, 0), (0x12, 0), (0x24, 0), (0x80000007, 0), (0x80000008, 0), (0x8000001A, 0),
    (0x8000001B, 0), (0x8000001F, 0), (0x80000021, 0),
)  # fmt: skip
"""The leaves with features that /proc/cpuinfo does not print."""
_SIZE = 16


def read_cpuid(cpu: int) -> tuple[CpuidLeaf, ...]:
    """Return the leaves of a CPU of this machine; none if the device is absent or may not be read."""
    try:
        descriptor = os.open(f"/dev/cpu/{cpu}/cpuid", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ()
    try:
        return known_leaves(lambda position: os.pread(descriptor, _SIZE, position))
    except OSError:
        return ()
    finally:
        os.close(descriptor)


def known_leaves(read_at: Callable[[int], bytes]) -> tuple[CpuidLeaf, ...]:
    """Return the leaves that a processor has; `read_at` reads 16 bytes at a position.

    For a leaf that it lacks, a processor returns the content of another leaf. So the numbers of the highest leaves are
    read first.
    """
    highest = [_read(read_at, first, 0).eax for first in (0, _EXTENDED)]
    return tuple(_read(read_at, leaf, part) for leaf, part in _LEAVES if leaf <= highest[leaf >= _EXTENDED])


def _read(read_at: Callable[[int], bytes], leaf: int, part: int) -> CpuidLeaf:
    content = read_at(leaf | part << 32)
    return CpuidLeaf(leaf, part, *struct.unpack("<4I", content.ljust(_SIZE, b"\0")[:_SIZE]))
