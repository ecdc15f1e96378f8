"""The machine as a whole: kernel, firmware identity, virtualisation; and devices of further classes."""

from typing import NamedTuple


class Kernel(NamedTuple):
    """The running kernel."""

    release: str | None
    version: str | None = None
    command_line: tuple[str, ...] = ()
    """Its parameters; values that could be secrets are not among those the kernel knows."""
    modules: tuple[str, ...] | None = None
    """Names of loaded modules, sorted."""
    config: dict[str, str] | None = None
    """The options that matter to zonewise, without CONFIG_: "NUMA": "y"."""
    page_size: int | None = None
    """Bytes."""


class Firmware(NamedTuple):
    """DMI/SMBIOS or device-tree identity; serial numbers are left out on purpose."""

    vendor: str | None = None
    product: str | None = None
    version: str | None = None
    board_vendor: str | None = None
    board: str | None = None
    bios_vendor: str | None = None
    bios_version: str | None = None
    bios_date: str | None = None
    chassis_type: str | None = None


class Virtualization(NamedTuple):
    """Whether and how this machine is virtual."""

    guest: bool | None
    """Whether it is a virtual machine."""
    hypervisor: str | None = None
    """"KVM", "VMware", "Microsoft", "Xen", "PR/SM", "z/VM", ..."""
    type: str | None = None
    """"full" or "para" for a guest, as lscpu calls it."""
    extensions: str | None = None
    """"VT-x" or "AMD-V": it can host machines itself."""
    container: str | None = None
    """The container runtime that the reading process is in, where it can be told."""


class BlockDevice(NamedTuple):
    """An NVMe namespace or another block device with a PCI function."""

    name: str
    address: str | None
    zone: int | None
    size: int | None
    """Bytes."""
    rotational: bool | None
    model: str | None
    transport: str | None
    """"nvme", "virtio", "scsi", "pmem" or None."""


class DaxDevice(NamedTuple):
    """Memory that is given to programs whole (device DAX) or as a zone (kmem)."""

    name: str
    zone: int | None
    """target_node: the zone that it is or would become."""
    size: int | None
    """Bytes."""
    driver: str | None
    """"kmem" where it has become ordinary memory, "device_dax" where a program may map it."""
    medium: str | None
    """"SPM" (specific-purpose memory) or "NVM"."""


class Accelerator(NamedTuple):
    """A device that computes and is no GPU: FPGA, DSA, QAT, processing accelerator, vector engine."""

    name: str
    address: str | None
    zone: int | None
    kind: str
    """"fpga", "dma", "crypto", "compression", "vector", "inference" or "accelerator"."""
    vendor: str | None
    """PCI vendor id."""
    device: str | None
    driver: str | None


class MemoryModule(NamedTuple):
    """A memory module, from the SMBIOS table."""

    location: str | None
    size: int | None
    """Bytes."""
    type: str | None
    """"DDR4", "DDR5", ..."""
    vendor: str | None = None
    part: str | None = None
    speed_mts: int | None = None
    rank: int | None = None
