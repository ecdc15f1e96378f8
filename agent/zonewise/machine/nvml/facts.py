"""NVML's facts of a machine, in its own numbers; `gpu_description` interprets them.

The same values serve every backend, travel from the child process as JSON, and are stored in captures. Every fact may
be None; then `absent` of the same object has the reason, by the name of the fact. This module has no deferred
annotations, since facts_json checks JSON against its types.
"""

from typing import NamedTuple


class NvmlLink(NamedTuple):
    """One NVLink of a GPU."""

    link: int
    """Number of the link on the GPU."""
    active: bool
    version: int | None = None
    remote_type: int | None = None
    """nvmlIntNvLinkDeviceType_t of the far end."""
    remote_address: str | None = None
    """The address in sysfs notation; None if a guest does not see it."""


class NvmlFabric(NamedTuple):
    """Membership in an NVLink fabric, nvmlGpuFabricInfoV_t."""

    state: int
    status: int
    """An nvmlReturn_t, meaningful only if the state is "completed"."""
    cluster_uuid: str
    """The UUID; "00000000-0000-0000-0000-000000000000" means none."""
    clique: int
    health_mask: int | None = None
    """Present from version 2 of the struct on."""
    health_summary: int | None = None
    """Present from version 3 of the struct on."""

    @property
    def is_registering(self) -> bool:
        """Return whether the registration has not started yet or is in progress (nvmlGpuFabricState_t)."""
        return self.state in (1, 2)


class NvmlMigDevice(NamedTuple):
    """A MIG device, with nvmlDeviceAttributes_t and its identity."""

    uuid: str | None = None
    name: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    multiprocessors: int | None = None
    copy_engines: int | None = None
    decoders: int | None = None
    encoders: int | None = None
    jpeg_engines: int | None = None
    ofa_engines: int | None = None
    gpu_slices: int | None = None
    compute_slices: int | None = None
    memory: int | None = None
    """Memory size in bytes."""
    absent: dict[str, str] = {}  # noqa: RUF012 -- never written to: a default of a NamedTuple must be a value
    faults: tuple[str, ...] = ()


class NvmlGpu(NamedTuple):
    """A GPU as NVML lists it."""

    place: int
    """NVML's index, which may refer to another GPU after one is lost; UUID and address identify the GPU."""
    address: str | None = None
    """The address in sysfs notation: "0000:3b:00.0"."""
    uuid: str | None = None
    name: str | None = None
    architecture: int | None = None
    """nvmlDeviceArchitecture_t."""
    memory: int | None = None
    """Total bytes, including the driver's own share."""
    compute_capability: tuple[int, ...] | None = None
    """Major and minor version."""
    minor: int | None = None
    module_id: int | None = None
    vbios: str | None = None
    firmware: str | None = None
    board: str | None = None
    persistence: bool | None = None
    virtualization: int | None = None
    """nvmlGpuVirtualizationMode_t."""
    addressing: int | None = None
    """nvmlDeviceAddressingModeType_t."""
    numa_node: int | None = None
    """The node that consists of the GPU's own memory, on coherent platforms; not the node nearest to the GPU."""
    memory_affinity: tuple[int, ...] | None = None
    """The NUMA nodes that it is nearest to."""
    ecc_enabled: bool | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    ecc_lifetime_corrected: int | None = None
    ecc_lifetime_uncorrected: int | None = None
    remapped_rows: tuple[int, ...] | None = None
    """Numbers of corrected and uncorrected rows; pending (0 or 1), failed (0 or 1)."""
    retired_pages_pending: bool | None = None
    clocks_event_reasons: int | None = None
    """Bits of nvmlClocksEventReasons."""
    recovery_action: int | None = None
    """NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""
    pcie_replays: int | None = None
    mig_mode: tuple[int, ...] | None = None
    """Current and pending mode, each 0 or 1."""
    mig_devices: tuple[NvmlMigDevice, ...] = ()
    fabric: NvmlFabric | None = None
    links: tuple[NvmlLink, ...] = ()
    absent: dict[str, str] = {}  # noqa: RUF012 -- as above
    faults: tuple[str, ...] = ()
    """Queries that failed with an error of the GPU, with that error."""
    nvlink_errors: int | None = None
    """CRC errors, replays and recoveries of all NVLinks since the driver was loaded."""
    lost: bool = False
    """Whether a query returned NVML_ERROR_GPU_IS_LOST; no further query was made then."""


class NvmlFacts(NamedTuple):
    """All facts from NVML, or the single reason why there are none."""

    problem: str | None = None
    """Why NVML could not be queried, and a remedy, in one line."""
    driver_version: str | None = None
    library_version: str | None = None
    cuda_version: int | None = None
    """1000 * major + 10 * minor: 12040."""
    gpus: tuple[NvmlGpu, ...] = ()
    absent: dict[str, str] = {}  # noqa: RUF012 -- as above
    faults: tuple[str, ...] = ()
