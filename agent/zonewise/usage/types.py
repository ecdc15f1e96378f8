"""Capacity, allocatable and available amounts of each zone, as immutable values."""

from typing import NamedTuple

from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.holdings import Holdings
from zonewise_common.nrt.numaplacement import NumaPlacement


class Amount(NamedTuple):
    """A quantity of one resource in one zone: number of CPUs or devices, bytes of memory and hugepages."""

    capacity: int
    """The amount that the hardware has."""
    allocatable: int
    """The amount that the kubelet may allocate exclusively to pods."""
    available: int
    """The amount that the kubelet would still allocate to the next pod."""


class ZoneUsage(NamedTuple):
    """The usage of one zone."""

    zone: int
    amounts: dict[str, Amount]
    """Amounts by resource, in canonical order: cpu, memory, hugepages by size, devices by name."""
    free_cpus: CpuSet | None = None
    """The CPUs behind the available amount of cpu; None under the CPU Manager's policy none."""
    memory_group: tuple[int, ...] = ()
    """The zones from which the Memory Manager currently allocates memory as one, including this zone. Empty for a
    single zone, and if the Memory Manager is not Static. A zone of a group has nothing for pods of a single zone."""


class SharedDevices(NamedTuple):
    """Devices of one resource that are close to the same several zones."""

    resource: str
    zones: tuple[int, ...]
    """Zones in ascending order."""
    amount: Amount


class ExcludedAmount(NamedTuple):
    """Memory (bytes) or devices of excluded pods, which the allocatable amounts do not contain.

    The kubelet's managers count this amount as allocatable. It affects the width of the Memory Manager's preferred
    hint, and the Device Manager's decision whether a resource has a healthy device.
    """

    resource: str
    zones: tuple[int, ...]
    """The zones that all of it is close to, ascending; empty if unknown."""
    size: int


class Usage(NamedTuple):
    """The usage of one node."""

    zones: tuple[ZoneUsage, ...]
    """All zones of the machine, with resources or without, in ascending order."""
    unzoned: dict[str, Amount]
    """Devices without a known zone, by resource, sorted; a resource without healthy devices has zero amounts here."""
    claimed: dict[str, int]
    """Number of distinct devices held through ResourceClaims, by driver, sorted."""
    reserved_cpus: CpuSet | None
    """CPUs that the kubelet allocates exclusively to no container; None if unknown."""
    fingerprint_all: str
    """The pod fingerprint over all pods, including excluded ones, method "all"."""
    fingerprint_exclusive: str
    """The pod fingerprint over pods with exclusive resources of a zone, method "with-exclusive-resources"."""
    problems: tuple[str, ...] = ()
    """Contradictions in the kubelet's responses, and how they were resolved; each is a sentence."""
    placement: NumaPlacement | None = None
    """The zone of each container; None unless the kubelet aligns each to one zone."""
    shared: tuple[SharedDevices, ...] = ()
    """Devices close to several zones, sorted; the amounts of each of these zones include them."""
    memory_assigned: tuple[int, ...] | None = None
    """Zones in which the Memory Manager has assigned any memory, ascending; None if it assigns none."""
    excluded: tuple[ExcludedAmount, ...] = ()
    """Excluded amounts, sorted."""
    holdings: tuple[tuple[str, Holdings], ...] = ()
    """The holdings of each pod, by its key (nrt.holdings), sorted; excluded pods are left out."""
    absent: tuple[SharedDevices, ...] = ()
    """Devices in `unzoned` whose plugin names only zones that the machine lacks, sorted; zone -1 is one of these."""
