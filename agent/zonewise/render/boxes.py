"""What a picture is made of: boxes that hold boxes, cores, memories and devices. Both renderers draw these values.

All texts are ready for a person: sizes with units, and no character that could move a terminal's cursor.
"""

from __future__ import annotations

from typing import NamedTuple

from zonewise_common.k8s.cpuset import EMPTY, CpuSet


class Cores(NamedTuple):
    """Cores that are alike in everything but their numbers."""

    cores: tuple[CpuSet, ...]
    """The hardware threads of each; single CPUs where the kernel does not say which ones form a core."""
    known: bool = True
    """Whether the kernel says which CPUs form a core."""
    kind: str | None = None
    """"performance" or "efficiency"."""
    caches: tuple[str, ...] = ()
    """The caches that each has for itself: "L2 2 MiB"."""
    state: tuple[str, ...] = ()
    """What is special about all of their threads: "offline", "isolated", "not allowed"; else of which thread."""

    @property
    def cpus(self) -> CpuSet:
        """Return the CPUs of all of them."""
        return union(self.cores)


class Memory(NamedTuple):
    """Zones without CPUs that are alike in everything but their numbers."""

    zones: tuple[int, ...]
    facts: tuple[str, ...]


class Device(NamedTuple):
    """An endpoint device, or several that are alike in everything but their names and addresses."""

    kind: str
    """"gpu", "network", "storage", "accelerator" or "memory"."""
    names: tuple[str, ...]
    addresses: tuple[str, ...]
    description: str
    state: str | None = None
    """"up", "down", ..."""
    link: str | None = None
    """The PCI Express link: "Gen5 x16"; "Gen4 x4/8" where it could be wider."""
    notes: tuple[str, ...] = ()
    """"+ 16 VFs", "MIG 7 x 1g.10gb"."""
    warnings: tuple[str, ...] = ()
    """"link degraded", "3 uncorrected ECC errors"."""


class Bus(NamedTuple):
    """A host bridge, a PCIe switch or a bridge that several devices sit behind."""

    names: tuple[str, ...]
    """"PCI 0000:15", "switch 16:00.0"."""
    items: tuple[Bus | Device, ...]


class Label(NamedTuple):
    """What a box is, and the kernel's number of it, or of each where several are folded into one box."""

    noun: str
    """"Package", "Zone", ..."""
    ids: tuple[int | None, ...]
    part: bool = False
    """Whether the box holds but a part of it, the rest being elsewhere."""


class Box(NamedTuple):
    """A part of the machine with CPUs; or several that are alike in everything but their numbers."""

    kind: str
    """"package", "die", "zone", "cache", "cluster", "book" or "drawer"; "zone" where it is both package and zone."""
    labels: tuple[Label, ...]
    headline: tuple[str, ...]
    """What belongs into the title: "128 GiB", "L3 32 MiB", the model."""
    details: tuple[str, ...]
    members: tuple[CpuSet, ...]
    """The CPUs of each of the folded ones, or of the only one."""
    children: tuple[Box | Cores, ...]
    memories: tuple[Memory, ...] = ()
    """Zones without CPUs that are nearest to it."""
    devices: tuple[Bus | Device, ...] = ()

    @property
    def cpus(self) -> CpuSet:
        """Return the CPUs of all that is folded into it."""
        return union(self.members)


class Picture(NamedTuple):
    """The whole picture."""

    title: tuple[str, ...]
    """The product and the host name."""
    facts: tuple[tuple[str, ...], ...]
    """What is said about the machine as a whole, in lines of phrases."""
    boxes: tuple[Box | Cores, ...]
    memories: tuple[Memory, ...]
    """Zones without CPUs that are near to no certain part of the machine, or to all of it."""
    devices: tuple[Bus | Device, ...]
    """Devices whose zone is unknown."""
    distances: tuple[tuple[int, tuple[int | None, ...]], ...]
    """The SLIT rows of the zones, one value for each zone in the same order; empty where there is but one zone."""
    notes: tuple[str, ...]
    """NVLinks, devices left out, the number of problems."""


def union(sets: tuple[CpuSet, ...]) -> CpuSet:
    """Return the union of CPU sets."""
    bits = 0
    for cpus in sets:
        bits |= cpus.bits
    return CpuSet.from_bits(bits) if bits else EMPTY
