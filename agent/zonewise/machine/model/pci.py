"""PCI functions, and the relation between any two endpoint devices."""

from typing import NamedTuple

from zonewise_common.k8s.cpuset import CpuSet


class PciLink(NamedTuple):
    """A PCI Express link: its current speed and width, and the highest that the function supports."""

    speed_gts: float | None
    """Current GT/s per lane; idle devices lower it to save power."""
    width: int | None
    """Lanes in use."""
    max_speed_gts: float | None
    max_width: int | None


class Sriov(NamedTuple):
    """Virtual functions of a physical function."""

    total: int | None
    """Number of functions that the hardware offers."""
    enabled: int | None
    """Number of functions that exist."""


class PciFunction(NamedTuple):
    """A PCI function. Ids are lower-case hexadecimal without 0x."""

    address: str
    """domain:bus:device.function in lower case, with all digits of the domain."""
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
    """The nearest zone with CPUs."""
    zone_source: str | None
    """Source of `zone`: "numa_node", "local_cpus", "distance", "physfn", "parent", "nvml", "single" or None."""
    cpus: CpuSet | None
    """The nearest CPUs: local_cpulist, or the CPUs of the nearest zone if the function's zone has none."""
    parent: str | None
    """The bridge above it; None directly below the host bridge."""
    root: str | None
    """The host bridge ("pci0000:3a"), by its whole path if its name is not unique; "0004:05" (domain and bus) if only
    the address is known."""
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
    """The NUMA node that the kernel got from the firmware; None also if that is "none" (-1)."""
    host_function: str | None = None
    """The address of the PCI function that contains its host bridge (Intel VMD), if there is one."""
    buses: tuple[int, int] | None = None
    """For a bridge, the first and the last bus below it; (0, 0) if the bridge is not configured."""
    iommu_type: str | None = None
    """How its IOMMU group translates addresses: "DMA", "DMA-FQ", "identity", ..."""
    iommu_version: str | None = None
    """The version of Intel's IOMMU above it: "5:0"."""
    name: str | None = None
    """The device's name in pci.ids, if a copy of that list was available."""


class Link(NamedTuple):
    """How close two endpoint devices are; a sorts before b."""

    a: str
    """PCI address."""
    b: str
    relation: str | None
    """"SAME", "PIX", "PXB", "PHB", "NODE", "SYS" or "NV<n>"; None across host bridges if one of them has no zone."""
