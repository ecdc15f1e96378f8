"""The machine as a whole: kernel, firmware identity, virtualisation, and devices of further classes."""

from typing import NamedTuple


class Kernel(NamedTuple):
    """The running kernel."""

    release: str | None
    version: str | None = None
    command_line: tuple[str, ...] = ()
    """Kernel parameters; the values of those that contain secrets are replaced by "(redacted)"."""
    modules: tuple[str, ...] | None = None
    """Names of loaded modules, sorted."""
    config: dict[str, str] | None = None
    """The options that matter to zonewise, without CONFIG_, with their values: "NUMA": "y", "m", "n" or another value.
    """
    config_lines: str = ""
    """All options that are set, as lines such as "NUMA=y". They are one text: 1,700 options take four times the memory
    as a dict."""
    page_size: int | None = None
    """Page size in bytes."""
    huge_page_sizes: tuple[int, ...] = ()
    """Sizes in bytes, ascending; none without hugetlbfs."""
    builtin_modules: tuple[str, ...] | None = None
    """Names of modules that are linked into the kernel, sorted; None if modules.builtin cannot be read."""


class Firmware(NamedTuple):
    """The identity in DMI/SMBIOS or the device tree; serial numbers are left out on purpose."""

    vendor: str | None = None
    product: str | None = None
    version: str | None = None
    board_vendor: str | None = None
    board: str | None = None
    bios_vendor: str | None = None
    bios_version: str | None = None
    bios_date: str | None = None
    chassis_type: str | None = None
    """SMBIOS chassis type number: "23" is a rack mount chassis."""
    board_version: str | None = None
    chassis_vendor: str | None = None
    chassis_version: str | None = None
    family: str | None = None
    sku: str | None = None
    """The vendor's product number, the same for all machines of a product."""
    platform: str | None = None
    """The platform of the kernel's POWER port: "PowerNV", "pSeries"."""
    compatible: tuple[str, ...] = ()
    """The device tree's names for the machine, the most specific first."""


class Virtualization(NamedTuple):
    """Whether and how this machine is virtual."""

    guest: bool | None
    """Whether it is a virtual machine."""
    hypervisor: str | None = None
    """"KVM", "VMware", "Microsoft", "Xen", "VirtualBox", "PowerVM", "PR/SM", "z/VM 6.4.0", ..."""
    type: str | None = None
    """"full" or "para" for a guest, as lscpu calls it."""
    extensions: str | None = None
    """"VT-x" or "AMD-V" if the machine can host virtual machines itself."""
    container: str | None = None
    """The container runtime of the reading process, if a file names it."""
    vendor: str | None = None
    """The maker of the hypervisor, as lscpu prints it: "KVM", "Oracle", "IBM", "pHyp", ..."""


class Power(NamedTuple):
    """How the CPUs save power and how their clocks are controlled."""

    idle_driver: str | None = None
    """"intel_idle", "acpi_idle", "none", ..."""
    max_cstate: int | None = None
    """The deepest idle state that intel_idle may use; 0 switches intel_idle off."""
    pstate: str | None = None
    """The mode of intel_pstate: "active", "passive" or "off"."""
    turbo: bool | None = None
    """Whether intel_pstate lets CPUs exceed their base frequency."""
    governors: tuple[str, ...] = ()
    """The scaling governors in use, sorted: one if all CPUs use the same governor."""


class Security(NamedTuple):
    """Security that the kernel enforces, and its means of shielding virtual machines from their host."""

    selinux: bool | None = None
    """Whether SELinux enforces; False also if the kernel runs without SELinux."""
    kvm: bool | None = None
    """Whether KVM is available (/dev/kvm)."""
    tdx: bool | None = None
    """Whether the machine can host Intel Trust Domain Extensions; None if KVM does not report it, as for all fields
    below."""
    sev: bool | None = None
    """AMD Secure Encrypted Virtualization."""
    sev_es: bool | None = None
    sev_snp: bool | None = None
    secure_execution: bool | None = None
    """Whether the machine can host IBM Secure Execution."""
    capacities: dict[str, int] = {}  # noqa: RUF012 -- the default of a NamedTuple, never changed
    """Amounts of "sgx_epc" (bytes), "tdx", "sev" and "sev_es" (keys and address space ids)."""


class UsbDevice(NamedTuple):
    """A USB device or hub."""

    name: str
    """Name by port: "1-2.1" is behind port 1 of the device at port 2 of bus 1; "usb1" is the root hub of bus 1."""
    vendor: str | None
    """4 hexadecimal digits."""
    device: str | None
    classes: tuple[str, ...]
    """Its class as 2 hexadecimal digits; if the interfaces define the class, the class of each interface in order."""


class Nvdimm(NamedTuple):
    """A device on the kernel's bus of non-volatile memory: a bus, module, region, namespace, or a device
    made from one.
    """

    name: str
    type: str | None
    """"nd_region", "nd_namespace_io", "nd_dax", ..."""
    mode: str | None
    """How a namespace is used: "raw", "sector", "memory" or "dax"."""


class BlockDevice(NamedTuple):
    """A whole block device of the hardware: an NVMe namespace, a disk, persistent memory as a disk."""

    name: str
    address: str | None
    """PCI address; None for a device without a PCI function (persistent memory, a controller of the platform)."""
    zone: int | None
    size: int | None
    """Size in bytes; 0 for a drive without a medium."""
    rotational: bool | None
    model: str | None
    transport: str | None
    """"nvme", "virtio", "scsi", "pmem" or None."""
    dax: bool | None = None
    """Whether files on it can be mapped without a copy in the page cache."""
    zoned: str | None = None
    """Whether it is written zone by zone (SMR, ZNS): "none", "host-aware" or "host-managed"."""
    zone_count: int | None = None
    """Number of such zones; 0 if it has none."""


class DaxDevice(NamedTuple):
    """Memory that programs map whole (device DAX) or that forms a zone (kmem)."""

    name: str
    zone: int | None
    """target_node: the zone that it forms or would form."""
    size: int | None
    """Size in bytes."""
    driver: str | None
    """"kmem" if it has become ordinary memory, "device_dax" if a program may map it."""
    medium: str | None
    """"SPM" (specific-purpose memory) or "NVM"."""
    numa_node: int | None = None
    """The nearest zone with CPUs; None also if the kernel reports none (-1)."""
    cxl: bool = False
    """Whether it is memory behind CXL."""


class Accelerator(NamedTuple):
    """A computing device other than a GPU: FPGA, QAT, processing accelerator, vector engine; or a DMA engine."""

    name: str
    """Its name in the driver ("dsa0", "accel0"), else its PCI address."""
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
    """Size in bytes."""
    type: str | None
    """"DDR4", "DDR5", ..."""
    vendor: str | None = None
    part: str | None = None
    speed_mts: int | None = None
    """Rated speed in MT/s."""
    rank: int | None = None
    bank: str | None = None
    form_factor: str | None = None
    """"DIMM", "SODIMM", ..."""
    configured_mts: int | None = None
    """Configured speed in MT/s."""
