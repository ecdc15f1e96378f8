"""GPUs: found on the PCI bus without any driver, with further facts from the driver of each vendor."""

from typing import NamedTuple


class MigInstance(NamedTuple):
    """A MIG device: a compute instance in a GPU instance."""

    uuid: str | None
    profile: str | None
    """Profile name such as "1g.10gb"."""
    gpu_instance: int | None
    compute_instance: int | None
    memory: int | None
    """Memory size in bytes."""
    multiprocessors: int | None
    gpu_slices: int | None = None
    compute_slices: int | None = None
    copy_engines: int | None = None
    decoders: int | None = None
    encoders: int | None = None
    jpeg_engines: int | None = None
    ofa_engines: int | None = None


class Mig(NamedTuple):
    """Multi-instance GPU: its mode and the instances that exist."""

    enabled: bool
    pending: bool
    """The mode after the next reset."""
    instances: tuple[MigInstance, ...] = ()


class Fabric(NamedTuple):
    """Membership in an NVLink domain across nodes."""

    state: str
    """"not supported", "not started", "in progress" or "completed"."""
    status: str | None
    """"success", or NVML's error."""
    cluster_uuid: str | None
    """None if all bits are zero: not in a cluster."""
    clique: int | None
    attached: bool = False
    """Whether registration completed successfully and in a cluster (the rule of go-nvlib's IsFabricAttached)."""
    health: str | None = None
    """"healthy", "unhealthy" or "limited capacity"; None if the driver does not report it."""
    faults: tuple[str, ...] | None = None
    """Current faults: "degraded bandwidth", "route recovery", "route unhealthy", "access timeout recovery", "incorrect
    configuration"; None if the driver does not report it."""


class Health(NamedTuple):
    """Signs of failing hardware, as of the last scan of the GPUs; None if the driver does not report one.

    These numbers can change without any other change, and their changes do not start a scan.
    """

    ecc_enabled: bool | None = None
    ecc_corrected: int | None = None
    """Count since the driver was loaded; so is ecc_uncorrected."""
    ecc_uncorrected: int | None = None
    remapped_correctable: int | None = None
    """Rows remapped over the GPU's life; so is remapped_uncorrectable."""
    remapped_uncorrectable: int | None = None
    remapping_pending: bool | None = None
    remapping_failed: bool | None = None
    retired_pages_pending: bool | None = None
    throttle_reasons: tuple[str, ...] | None = None
    """The current reasons for reduced clocks: "hw slowdown", "hw thermal", "hw power brake", "sw thermal", "sw power
    cap"."""
    recovery_action: str | None = None
    """The remedy that the driver recommends: "none", "reset gpu", "reboot node", "drain p2p", "drain and reset",
    "recover imex domain", "reset bus" or "reboot system"."""
    pcie_replays: int | None = None
    ecc_lifetime_corrected: int | None = None
    """Count over the GPU's life; so is ecc_lifetime_uncorrected."""
    ecc_lifetime_uncorrected: int | None = None
    faults: tuple[str, ...] = ()
    """Queries that failed with an error of the GPU: "nvmlDeviceGetUUID: GPU is lost"."""


class NvLinkPeer(NamedTuple):
    """Active NVLinks from one GPU to one other device."""

    address: str | None
    """PCI address of the far end; None if a guest cannot identify the switch."""
    kind: str
    """"gpu", "switch", "npu" or "unknown"."""
    links: int
    version: int | None = None


class XgmiPeer(NamedTuple):
    """An AMD GPU that is reached over XGMI (Infinity Fabric)."""

    address: str
    """PCI address of the far end."""
    links: int | None
    """Number of parallel links; None if the driver does not report bandwidths."""
    bandwidth: int | None
    """Bandwidth of all links in one direction, in MB/s."""
    weight: int | None
    """The driver's distance: 15 for each hop, 13 inside one package."""


class Partition(NamedTuple):
    """A compute partition of an AMD GPU, which programs see as a separate GPU."""

    id: int
    minor: int | None
    """Number in /dev/dri/renderD<minor>."""
    memory: int | None
    """Memory size in bytes."""
    compute_units: int | None
    simds: int | None = None
    """Number of SIMD units; a compute unit has several."""
    device: str | None = None
    """Name of its platform device, "amdgpu_xcp_30"; None for the first partition, which has the GPU's PCI function."""


class Gpu(NamedTuple):
    """A GPU."""

    address: str | None
    """PCI address; None for a platform device."""
    uuid: str | None
    vendor: str
    """"nvidia", "amd", "intel", or the PCI vendor id in hexadecimal."""
    model: str | None
    memory: int | None
    """Memory size in bytes."""
    zone: int | None
    driver: str | None
    mig: Mig | None
    """None if the GPU has no such mode or the mode is unknown."""
    fabric: Fabric | None
    health: Health | None
    number: int | None = None
    """The driver's index, which may change when a GPU is lost."""
    minor: int | None = None
    """Number in /dev/nvidia<minor> or /dev/dri/renderD<minor>."""
    driver_version: str | None = None
    cuda_version: str | None = None
    """Highest CUDA version that the driver supports ("12.4")."""
    architecture: str | None = None
    compute_capability: str | None = None
    """Compute capability ("9.0"); for AMD GPUs the gfx target ("gfx942")."""
    virtualization: str | None = None
    """"none", "passthrough" or "vgpu" (in both of these PCIe is the guest's view), "host vgpu", "host vsga"; None if
    the driver does not report it."""
    memory_zone: int | None = None
    """The zone that consists of the GPU's own memory, on coherent platforms."""
    persistence: bool | None = None
    addressing: str | None = None
    """How the GPU uses process addresses: "none", "hmm" or "ats"; None if the driver does not report it."""
    partition: str | None = None
    """AMD compute and memory partition ("cpx_nps4")."""
    nvlinks: tuple[NvLinkPeer, ...] = ()
    state: str | None = None
    """Why the GPU cannot be used, or None. "lost": on the bus, but the driver no longer reaches it. "excluded": left
    out by the driver's settings. "hidden": the driver does not show it to this container."""
    module_id: int | None = None
    """Its slot on the baseboard, counted from 1."""
    vbios: str | None = None
    firmware: str | None = None
    """Version of the firmware that the driver loaded (GSP)."""
    board: str | None = None
    """Part number of the board."""
    compute_units: int | None = None
    """AMD: compute units of all partitions."""
    partitions: tuple[Partition, ...] = ()
    """The partitions of a partitioned GPU."""
    hive: str | None = None
    """Id of the hive in hexadecimal. AMD GPUs with the same hive id reach each other over XGMI."""
    xgmi: tuple[XgmiPeer, ...] = ()
    tiles: int | None = None
    """Intel: number of GPUs on one package, which programs may use separately."""
    simds: int | None = None
    """AMD: SIMD units of all partitions."""
