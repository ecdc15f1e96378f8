"""What each zone has, can give to pods, and has left, as immutable values."""

from typing import NamedTuple

from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.numaplacement import NumaPlacement


class Amount(NamedTuple):
    """A quantity of one resource in one zone: CPUs, bytes of memory and hugepages, counts of devices."""

    capacity: int
    """What the hardware has."""
    allocatable: int
    """What the kubelet may give to pods exclusively."""
    available: int
    """What of that it would still give to the next one."""


class ZoneUsage(NamedTuple):
    """One zone."""

    zone: int
    amounts: dict[str, Amount]
    """By resource, in canonical order: cpu, memory, hugepages by size, devices by name."""
    free_cpus: CpuSet | None = None
    """The CPUs behind the available amount of cpu; None where the kubelet gives none exclusively (policy none)."""
    memory_group: tuple[int, ...] = ()
    """The zones from which the Memory Manager gives memory as one at present, this one among them; empty where it is
    alone, or the Memory Manager is not Static. A zone of a group gives nothing to pods of a single zone."""


class SharedDevices(NamedTuple):
    """Devices of one resource that are close to the same several zones."""

    resource: str
    zones: tuple[int, ...]
    """Ascending."""
    amount: Amount


class Usage(NamedTuple):
    """One node."""

    zones: tuple[ZoneUsage, ...]
    """Ascending by zone; those of the machine, whether anything can be had there or not."""
    unzoned: dict[str, Amount]
    """Devices that the kubelet knows no zone of, by resource, sorted; none of those of which it has no healthy one."""
    claimed: dict[str, int]
    """Count of distinct devices held through ResourceClaims, by driver, sorted."""
    reserved_cpus: CpuSet | None
    """CPUs that the kubelet gives to nobody exclusively; None where unknown."""
    fingerprint_all: str
    """The pod fingerprint over all counted pods, method "all"."""
    fingerprint_exclusive: str
    """The same over those that hold something of a zone, method "with-exclusive-resources"."""
    problems: tuple[str, ...] = ()
    """What the kubelet said that makes no sense, and what was done about it; each a sentence."""
    placement: NumaPlacement | None = None
    """In which zone each counted container is; None unless the kubelet keeps each in one."""
    shared: tuple[SharedDevices, ...] = ()
    """Devices that are close to several zones, sorted; they are in the amounts of each of these too."""
    memory_assigned: tuple[int, ...] | None = None
    """Zones of which the Memory Manager has assigned any memory, ascending; None where it assigns none."""
