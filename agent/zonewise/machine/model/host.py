"""The machine as a whole: kernel, firmware identity, virtualisation; and devices of further classes."""

from typing import NamedTuple


class Kernel(NamedTuple):
    """The running kernel."""

    release: str | None
    version: str | None = None
    command_line: tuple[str, ...] = ()
    """Its parameters; the values of those that hold secrets are replaced by "(redacted)"."""
    modules: tuple[str, ...] | None = None
    """Names of loaded modules, sorted."""
    config: dict[str, str] | None = None
    """The options that matter to zonewise, without CONFIG_: "NUMA": "y", "m", "n" or a value."""
    config_lines: str = ""
    """All options that are set, as lines of "NUMA=y": one text, since 1,700 options as a dict weigh four times that."""
    page_size: int | None = None
    """Bytes."""
    huge_page_sizes: tuple[int, ...] = ()
    """Bytes, ascending; none without hugetlbfs."""
    builtin_modules: tuple[str, ...] | None = None
    """Names of modules that are linked into the kernel, sorted; None where modules.builtin cannot be read."""


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
    """The number of SMBIOS: "23" is a rack mount chassis."""
    board_version: str | None = None
    chassis_vendor: str | None = None
    chassis_version: str | None = None
    family: str | None = None
    sku: str | None = None
    """The vendor's number of the product, of all its machines alike."""
    platform: str | None = None
    """The platform of the kernel's POWER port: "PowerNV", "pSeries"."""
    compatible: tuple[str, ...] = ()
    """The device tree's names for the machine, the most exact first."""


class Virtualization(NamedTuple):
    """Whether and how this machine is virtual."""

    guest: bool | None
    """Whether it is a virtual machine."""
    hypervisor: str | None = None
    """"KVM", "VMware", "Microsoft", "Xen", "VirtualBox", "PowerVM", "PR/SM", "z/VM 6.4.0", ..."""
    type: str | None = None
    """"full" or "para" for a guest, as lscpu calls it."""
    extensions: str | None = None
    """"VT-x" or "AMD-V": it can host machines itself."""
    container: str | None = None
    """The container runtime of the reading process, where a file names it."""
    vendor: str | None = None
    """The maker of the hypervisor, in the words of lscpu: "KVM", "Oracle", "IBM", "pHyp", ..."""


class Power(NamedTuple):
    """How the CPUs save power, and how they are clocked."""

    idle_driver: str | None = None
    """"intel_idle", "acpi_idle", "none", ..."""
    max_cstate: int | None = None
    """The deepest idle state that intel_idle may use; 0 switches it off."""
    pstate: str | None = None
    """The mode of intel_pstate: "active", "passive" or "off"."""
    turbo: bool | None = None
    """Whether intel_pstate lets CPUs exceed their base frequency."""
    governors: tuple[str, ...] = ()
    """The scaling governors in use, sorted: one where all CPUs are governed alike."""


class Security(NamedTuple):
    """What the kernel enforces, and how it can shield virtual machines from their host."""

    selinux: bool | None = None
    """Whether SELinux enforces; False also where the kernel runs without."""
    kvm: bool | None = None
    """Whether KVM is at hand (/dev/kvm)."""
    tdx: bool | None = None
    """Intel Trust Domain Extensions, as a host; None where KVM does not report it, as of all below."""
    sev: bool | None = None
    """AMD Secure Encrypted Virtualization."""
    sev_es: bool | None = None
    sev_snp: bool | None = None
    secure_execution: bool | None = None
    """IBM Secure Execution, as a host."""
    capacities: dict[str, int] = {}  # noqa: RUF012 -- the default of a NamedTuple, never changed
    """Amounts of "sgx_epc" (bytes), "tdx", "sev" and "sev_es" (keys and address space ids)."""


class UsbDevice(NamedTuple):
    """A USB device or hub."""

    name: str
    """By its port: "1-2.1" is behind port 1 of the device at port 2 of bus 1; "usb1" the root hub of bus 1."""
    vendor: str | None
    """4 hexadecimal digits."""
    device: str | None
    classes: tuple[str, ...]
    """Its class, 2 hexadecimal digits; of a device that leaves that to its interfaces that of each, in order."""


class Nvdimm(NamedTuple):
    """A device of the kernel's bus of non-volatile memory: a bus, module, region, namespace or what is made of one."""

    name: str
    type: str | None
    """"nd_region", "nd_namespace_io", "nd_dax", ..."""
    mode: str | None
    """How a namespace is used: "raw", "sector", "memory" or "dax"."""


class BlockDevice(NamedTuple):
    """A block device of the hardware, whole: an NVMe namespace, a disk, persistent memory as a disk."""

    name: str
    address: str | None
    """PCI address; None for a device without a PCI function (persistent memory, a platform's own controller)."""
    zone: int | None
    size: int | None
    """Bytes; 0 for a drive without a medium."""
    rotational: bool | None
    model: str | None
    transport: str | None
    """"nvme", "virtio", "scsi", "pmem" or None."""
    dax: bool | None = None
    """Whether files on it can be mapped without a copy in the page cache."""
    zoned: str | None = None
    """"none", "host-aware" or "host-managed": whether it is written zone by zone (SMR, ZNS)."""
    zone_count: int | None = None
    """How many such zones it has: 0 without."""


class DaxDevice(NamedTuple):
    """Memory that programs map whole (device DAX) or that is a zone (kmem)."""

    name: str
    zone: int | None
    """target_node: the zone that it is or would become."""
    size: int | None
    """Bytes."""
    driver: str | None
    """"kmem" where it has become ordinary memory, "device_dax" where a program may map it."""
    medium: str | None
    """"SPM" (specific-purpose memory) or "NVM"."""
    numa_node: int | None = None
    """The zone with CPUs that is nearest to it; None also where the kernel has none (-1)."""
    cxl: bool = False
    """Whether it is memory behind CXL."""


class Accelerator(NamedTuple):
    """A device that computes and is no GPU: FPGA, QAT, processing accelerator, vector engine; or a DMA engine."""

    name: str
    """As its driver calls it ("dsa0", "accel0"), else its PCI address."""
    address: str | None
    """PCI address; None for a part of the platform, such as the FPGA of a system-on-chip."""
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
    """MT/s that it is made for."""
    rank: int | None = None
    bank: str | None = None
    form_factor: str | None = None
    """"DIMM", "SODIMM", ..."""
    configured_mts: int | None = None
    """MT/s that it is run at."""
