"""The elements of a picture: boxes that contain boxes, cores, memories and devices. Both renderers draw these values.

All texts are ready for display: sizes have units, and no character can move a terminal's cursor.
"""

from __future__ import annotations

from typing import NamedTuple

from zonewise_common.k8s.cpuset import EMPTY, CpuSet


class Cores(NamedTuple):
    """Cores that are equal except for their numbers."""

    cores: tuple[CpuSet, ...]
    """The hardware threads of each core; single CPUs if the kernel does not report which CPUs form a core."""
    known: bool = True
    """Whether the kernel reports which CPUs form a core."""
    kind: str | None = None
    """"performance" or "efficiency"."""
    caches: tuple[str, ...] = ()
    """The private caches of each core: "L2 2 MiB"."""
    state: tuple[str, ...] = ()
    """Special states of all threads, or of a numbered thread: "offline", "isolated", "tickless", "not allowed"."""

    @property
    def cpus(self) -> CpuSet:
        """Return the CPUs of all cores."""
        return union(self.cores)


class Memory(NamedTuple):
    """Zones without CPUs that are equal except for their numbers."""

    zones: tuple[int, ...]
    facts: tuple[str, ...]


class Device(NamedTuple):
    """An endpoint device, or several that are equal except for their names and addresses."""

    kind: str
    """"gpu", "network", "storage", "accelerator" or "memory"."""
    names: tuple[str, ...]
    addresses: tuple[str, ...]
    description: str
    state: str | None = None
    """"up", "down", ..."""
    link: str | None = None
    """The PCI Express link: "Gen5 x16"; "Gen4 x4/8" if it could be wider."""
    notes: tuple[str, ...] = ()
    """"+ 16 VFs", "MIG 7 x 1g.10gb"."""
    warnings: tuple[str, ...] = ()
    """"link degraded", "3 uncorrected ECC errors"."""


class Bus(NamedTuple):
    """A host bridge, a PCIe switch or a bridge with several devices behind it."""

    names: tuple[str, ...]
    """"PCI 0000:15", "switch 16:00.0"."""
    items: tuple[Bus | Device, ...]


class Label(NamedTuple):
    """The kind of a box and its number in the kernel; several numbers if boxes are folded into one."""

    noun: str
    """"Package", "Zone", ..."""
    ids: tuple[int | None, ...]
    part: bool = False
    """Whether the box contains only part of the package, zone or other unit that the label names."""


class Box(NamedTuple):
    """A part of the machine with CPUs, or several such parts that are equal except for their numbers."""

    kind: str
    """"package", "die", "zone", "cache", "cluster", "book" or "drawer"; "zone" if it is both package and zone."""
    labels: tuple[Label, ...]
    headline: tuple[str, ...]
    """Texts in the title, such as "128 GiB", "L3 32 MiB" or the model."""
    details: tuple[str, ...]
    members: tuple[CpuSet, ...]
    """The CPUs of each folded box, or of the only box."""
    children: tuple[Box | Cores, ...]
    memories: tuple[Memory, ...] = ()
    """Zones without CPUs that are nearest to this box."""
    devices: tuple[Bus | Device, ...] = ()

    @property
    def cpus(self) -> CpuSet:
        """Return the CPUs of all members."""
        return union(self.members)


class Picture(NamedTuple):
    """The whole picture."""

    title: tuple[str, ...]
    """The product and the host name."""
    facts: tuple[tuple[str, ...], ...]
    """Facts about the whole machine, in lines of phrases."""
    boxes: tuple[Box | Cores, ...]
    memories: tuple[Memory, ...]
    """Zones without CPUs that are near no single part of the machine, or near all of it."""
    devices: tuple[Bus | Device, ...]
    """Devices whose zone is unknown."""
    distances: tuple[tuple[int, tuple[int | None, ...]], ...]
    """The SLIT rows of the zones, one value for each zone in the same order; empty for a single zone."""
    notes: tuple[str, ...]
    """Notes on NVLinks, omitted devices and the number of problems."""


def union(sets: tuple[CpuSet, ...]) -> CpuSet:
    """Return the union of CPU sets."""
    bits = 0
    for cpus in sets:
        bits |= cpus.bits
    return CpuSet.from_bits(bits) if bits else EMPTY
