"""PCI functions and the relation between any two endpoint devices."""

from typing import NamedTuple

from zonewise_common.k8s.cpuset import CpuSet


class PciLink(NamedTuple):
    """A PCI Express link: what it runs at, and what both ends could."""

    speed_gts: float | None
    """GT/s per lane now; idle devices lower it to save power."""
    width: int | None
    """Lanes in use."""
    max_speed_gts: float | None
    max_width: int | None


class Sriov(NamedTuple):
    """Virtual functions of a physical function."""

    total: int | None
    """How many the hardware offers."""
    enabled: int | None
    """How many exist."""


class PciFunction(NamedTuple):
    """A PCI function. Ids are lower-case hexadecimal without 0x."""

    address: str
    """domain:bus:device.function, lower case, the domain with all its digits."""
    pci_class: str | None
    """Class and subclass, 4 digits."""
    class_full: str | None
    """Class, subclass and programming interface, 6 digits."""
    vendor: str | None
    device: str | None
    subsystem_vendor: str | None
    subsystem_device: str | None
    driver: str | None
    zone: int | None
    """The CPU zone it is nearest to."""
    zone_source: str | None
    """Where `zone` is from: "numa_node", "local_cpus", "distance", "physfn", "parent", "nvml", "single" or None."""
    cpus: CpuSet | None
    """The nearest CPUs: local_cpulist, or those of the nearest zone for a function whose zone has none."""
    parent: str | None
    """The bridge above it; None right below the host bridge."""
    root: str | None
    """The host bridge ("pci0000:3a"), by its whole path where its name is not unique; "0004:05" (domain and bus) where
    only the address is known."""
    link: PciLink | None
    iommu_group: int | None
    sriov: Sriov | None
    physical_function: str | None = None
    """For a virtual function, the address of its physical one."""
    bridges: tuple[str, ...] = ()
    """The bridges above it, topmost first."""
    memory_zone: int | None = None
    """For a coherent GPU, the zone of its own memory."""
    numa_node: int | None = None
    """The NUMA node that the kernel has from the firmware; None also where that is "none" (-1)."""
    host_function: str | None = None
    """Below a host bridge that is itself inside a PCI function (Intel VMD), the address of that function."""
    buses: tuple[int, int] | None = None
    """For a bridge, the first and the last bus below it; (0, 0) where it is not configured."""
    iommu_type: str | None = None
    """How its IOMMU group translates addresses: "DMA", "DMA-FQ", "identity", ..."""
    iommu_version: str | None = None
    """The version of Intel's IOMMU above it: "5:0"."""
    name: str | None = None
    """The device's name in pci.ids, where a copy of that list was at hand."""


class Link(NamedTuple):
    """How close two endpoint devices are, a before b."""

    a: str
    """PCI address."""
    b: str
    relation: str | None
    """"SAME", "PIX", "PXB", "PHB", "NODE", "SYS" or "NV<n>"; None across host bridges one of which has no zone."""
