"""GPUs: found by PCI without any driver, with further facts from the driver of each vendor."""

from typing import NamedTuple


class MigInstance(NamedTuple):
    """A MIG device: a compute instance in a GPU instance."""

    uuid: str | None
    profile: str | None
    """"1g.10gb" and the like."""
    gpu_instance: int | None
    compute_instance: int | None
    memory: int | None
    """Bytes."""
    multiprocessors: int | None
    gpu_slices: int | None = None
    compute_slices: int | None = None
    copy_engines: int | None = None
    decoders: int | None = None
    encoders: int | None = None
    jpeg_engines: int | None = None
    ofa_engines: int | None = None


class Mig(NamedTuple):
    """Multi-instance GPU: the mode, and the instances made."""

    enabled: bool
    pending: bool
    """What the mode will be after the next reset."""
    instances: tuple[MigInstance, ...] = ()


class Fabric(NamedTuple):
    """Membership in an NVLink domain across nodes."""

    state: str
    """"not supported", "not started", "in progress" or "completed"."""
    status: str | None
    """"success", or NVML's error."""
    cluster_uuid: str | None
    """None where all bits are zero: not in a cluster."""
    clique: int | None
    attached: bool = False
    """Completed, with success, in a cluster (the rule of go-nvlib's IsFabricAttached)."""
    health: str | None = None
    """"healthy", "unhealthy" or "limited capacity"; None where the driver does not report it."""
    faults: tuple[str, ...] | None = None
    """What is wrong with it now: "degraded bandwidth", "route recovery", "route unhealthy", "access timeout recovery",
    "incorrect configuration"; None where the driver does not report it."""


class Health(NamedTuple):
    """Signs of failing hardware, as of the last scan of the GPUs; None where the driver does not report one.

    These numbers change without any other change, and no change of theirs starts a scan.
    """

    ecc_enabled: bool | None = None
    ecc_corrected: int | None = None
    """Since the driver was loaded, as ecc_uncorrected."""
    ecc_uncorrected: int | None = None
    remapped_correctable: int | None = None
    """Rows remapped over the GPU's life, as remapped_uncorrectable."""
    remapped_uncorrectable: int | None = None
    remapping_pending: bool | None = None
    remapping_failed: bool | None = None
    retired_pages_pending: bool | None = None
    throttle_reasons: tuple[str, ...] | None = None
    """The reasons for reduced clocks now: "hw slowdown", "hw thermal", "hw power brake", "sw thermal", "sw power cap".
    """
    recovery_action: str | None = None
    """The driver's own remedy: "none", "reset gpu", "reboot node", "drain p2p", "drain and reset",
    "recover imex domain", "reset bus" or "reboot system"."""
    pcie_replays: int | None = None
    ecc_lifetime_corrected: int | None = None
    """Over the GPU's life, as ecc_lifetime_uncorrected."""
    ecc_lifetime_uncorrected: int | None = None
    faults: tuple[str, ...] = ()
    """Queries that failed with an error of the GPU: "nvmlDeviceGetUUID: GPU is lost"."""


class NvLinkPeer(NamedTuple):
    """Active NVLinks from one GPU to one other device."""

    address: str | None
    """PCI address of the far end; None where a guest does not see which switch."""
    kind: str
    """"gpu", "switch", "npu" or "unknown"."""
    links: int
    version: int | None = None


class XgmiPeer(NamedTuple):
    """An AMD GPU that is reached over XGMI (Infinity Fabric)."""

    address: str
    """PCI address of the far end."""
    links: int | None
    """Links side by side; None where the driver does not report bandwidths."""
    bandwidth: int | None
    """MB/s of all of them, in one direction."""
    weight: int | None
    """The driver's distance: 15 for each hop, 13 inside one package."""


class Partition(NamedTuple):
    """A compute partition of an AMD GPU, which programs see as a GPU of its own."""

    id: int
    minor: int | None
    """/dev/dri/renderD<minor>."""
    memory: int | None
    """Bytes."""
    compute_units: int | None
    simds: int | None = None
    """SIMD units, of which a compute unit has several."""


class Gpu(NamedTuple):
    """A GPU."""

    address: str | None
    """PCI address; None for a platform device."""
    uuid: str | None
    vendor: str
    """"nvidia", "amd", "intel", or the PCI vendor id in hexadecimal."""
    model: str | None
    memory: int | None
    """Bytes."""
    zone: int | None
    driver: str | None
    mig: Mig | None
    """None where the GPU has no such mode, or where it is unknown."""
    fabric: Fabric | None
    health: Health | None
    number: int | None = None
    """The driver's number, which may change when a GPU is lost."""
    minor: int | None = None
    """/dev/nvidia<minor>, /dev/dri/renderD<minor>."""
    driver_version: str | None = None
    cuda_version: str | None = None
    """Highest CUDA version of the driver ("12.4")."""
    architecture: str | None = None
    compute_capability: str | None = None
    """"9.0"; of AMD GPUs the gfx target ("gfx942")."""
    virtualization: str | None = None
    """"none", "passthrough" or "vgpu" (in both of these PCIe is the guest's view), "host vgpu", "host vsga"; None where
    the driver does not report it."""
    memory_zone: int | None = None
    """The zone that its own memory is, on coherent platforms."""
    persistence: bool | None = None
    addressing: str | None = None
    """How the GPU uses the addresses of processes: "none", "hmm" or "ats"; None where the driver does not report it."""
    partition: str | None = None
    """AMD compute and memory partition ("cpx_nps4")."""
    nvlinks: tuple[NvLinkPeer, ...] = ()
    state: str | None = None
    """None, or why the GPU cannot be used. "lost": on the bus, and the driver reaches it no more. "excluded": left out
    by the driver's settings. "hidden": the driver does not show it to this container."""
    module_id: int | None = None
    """Its slot on the baseboard, counted from 1."""
    vbios: str | None = None
    firmware: str | None = None
    """Version of the firmware that the driver has loaded (GSP)."""
    board: str | None = None
    """Part number of the board."""
    compute_units: int | None = None
    """AMD: of all partitions."""
    partitions: tuple[Partition, ...] = ()
    """Where it is partitioned."""
    hive: str | None = None
    """AMD GPUs with the same hive id, in hexadecimal, reach each other over XGMI."""
    xgmi: tuple[XgmiPeer, ...] = ()
    tiles: int | None = None
    """Intel: GPUs on one package, which programs may use apart."""
    simds: int | None = None
    """AMD: SIMD units of all partitions."""
