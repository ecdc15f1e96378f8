"""Capacity, allocatable and available amounts of each zone, as immutable values."""

from typing import NamedTuple

from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.holdings import Holdings
from zonewise_common.nrt.numaplacement import NumaPlacement


class Amount(NamedTuple):
    """A quantity of one resource in one zone: CPUs, bytes of memory and hugepages, counts of devices."""

    capacity: int
    """What the hardware has."""
    allocatable: int
    """What the kubelet may allocate to pods exclusively."""
    available: int
    """What it would still allocate to the next pod."""


class ZoneUsage(NamedTuple):
    """One zone."""

    zone: int
    amounts: dict[str, Amount]
    """By resource, in canonical order: cpu, memory, hugepages by size, devices by name."""
    free_cpus: CpuSet | None = None
    """The CPUs behind the available amount of cpu; None under the CPU Manager's policy none."""
    memory_group: tuple[int, ...] = ()
    """The zones from which the Memory Manager allocates memory as one at present, this one included. Empty for a single
    zone, and where the Memory Manager is not Static. A zone of a group has nothing for pods of a single zone."""


class SharedDevices(NamedTuple):
    """Devices of one resource that are close to the same several zones."""

    resource: str
    zones: tuple[int, ...]
    """Ascending."""
    amount: Amount


class ExcludedAmount(NamedTuple):
    """Memory (bytes) or devices of excluded pods, which the allocatable amounts lack.

    The kubelet's managers count it as allocatable. The Memory Manager does so in the width of a preferred hint, the
    Device Manager in the decision whether a resource has a healthy device.
    """

    resource: str
    zones: tuple[int, ...]
    """Those that all of it is close to, ascending; empty where unknown."""
    size: int


class Usage(NamedTuple):
    """One node."""

    zones: tuple[ZoneUsage, ...]
    """Ascending by zone; all zones of the machine, with resources or without."""
    unzoned: dict[str, Amount]
    """Devices without a known zone, by resource, sorted; a resource without healthy devices has none here."""
    claimed: dict[str, int]
    """Count of distinct devices held through ResourceClaims, by driver, sorted."""
    reserved_cpus: CpuSet | None
    """CPUs that the kubelet allocates to no container exclusively; None where unknown."""
    fingerprint_all: str
    """The pod fingerprint over all pods, excluded ones too, method "all"."""
    fingerprint_exclusive: str
    """The same over pods with exclusive resources of a zone, method "with-exclusive-resources"."""
    problems: tuple[str, ...] = ()
    """Contradictions in the kubelet's responses, and how they were resolved; each a sentence."""
    placement: NumaPlacement | None = None
    """The zone of each container; None unless the kubelet aligns each to one zone."""
    shared: tuple[SharedDevices, ...] = ()
    """Devices close to several zones, sorted; the amounts of each of these zones include them."""
    memory_assigned: tuple[int, ...] | None = None
    """Zones of which the Memory Manager has assigned any memory, ascending; None where it assigns none."""
    excluded: tuple[ExcludedAmount, ...] = ()
    """Sorted."""
    holdings: tuple[tuple[str, Holdings], ...] = ()
    """What each pod holds, by its key (nrt.holdings), sorted; excluded pods are left out."""
    absent: tuple[SharedDevices, ...] = ()
    """Devices in `unzoned` whose plugin names only zones that the machine lacks, sorted; zone -1 is one of these."""
