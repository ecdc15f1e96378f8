"""GPUs: found by PCI without any driver, enriched by what the driver of each vendor tells."""

from typing import NamedTuple


class MigInstance(NamedTuple):
    """A MIG device: a compute instance in a GPU instance."""

    uuid: str
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


class Health(NamedTuple):
    """Signs of failing hardware, as the driver counts them; None what it does not count."""

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
    """Why the clocks are held down now: "hw slowdown", "hw thermal", "hw power brake", "sw thermal", "sw power cap"."""
    recovery_action: str | None = None
    """The driver's own remedy: "none", "reset gpu", "reboot node", "drain p2p" or "drain and reset"."""
    pcie_replays: int | None = None


class NvLinkPeer(NamedTuple):
    """Active NVLinks from one GPU to one other device."""

    address: str | None
    """PCI address of the far end; None where a guest is not told which switch."""
    kind: str
    """"gpu", "switch", "npu" or "unknown"."""
    links: int
    version: int | None = None


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
    """None where the GPU has no such mode or nobody could ask."""
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
    """"passthrough", "vgpu": what is seen of PCIe is then the guest's view."""
    memory_zone: int | None = None
    """The zone that its own memory is, on coherent platforms."""
    persistence: bool | None = None
    addressing: str | None = None
    """"hmm", "ats" or None."""
    partition: str | None = None
    """AMD compute and memory partition ("cpx_nps4")."""
    nvlinks: tuple[NvLinkPeer, ...] = ()
