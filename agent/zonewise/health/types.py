"""Values of health: observations, the signs that rules see in them, and the faults that follow.

Times are seconds since the epoch. None means "unknown", which is never the same as zero or healthy.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """The component that is at fault."""

    APPLICATION = "application"
    DRIVER = "driver"
    """The driver or the firmware of a device."""
    HARDWARE = "hardware"
    UNKNOWN = "unknown"


class Severity(IntEnum):
    """The meaning of a fault for the device. Applications cause only notes."""

    NOTE = 0
    """The device works: an Event and a metric."""
    DEGRADED = 1
    """The device works, but slower or at risk: in addition, a condition of the Node."""
    FAILED = 2
    """The device must not be used: it may be removed from the available resources."""


class Clearing(StrEnum):
    """The event that ends a fault, besides `Sign.settle` seconds without its sign."""

    QUIET = "quiet"
    """Nothing else."""
    RESET = "reset"
    """A reset of the device, a reload of its driver, or a reboot."""
    REBOOT = "reboot"


GPU, MIG, NIC, PORT, DRIVE = "gpu", "mig", "nic", "port", "drive"
CPU, MEMORY, NODE = "cpu", "memory", "node"
"""Kinds of devices; a port is a port of an RDMA device. Only pods hold MIG devices: their faults are the GPU's."""


class DeviceId(NamedTuple):
    """A part of the machine."""

    kind: str
    name: str
    """PCI address of a GPU, NIC or NVMe drive, "mlx5_0/1" for a port, the number of a CPU, "ADDRESS/GPU
    INSTANCE/COMPUTE INSTANCE" for a MIG device."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


class Sign(NamedTuple):
    """A sign that one rule sees in one observation: a condition that is present now, or an event."""

    device: DeviceId
    rule: str
    """The rule's stable name: "xid-79"."""
    verdict: Verdict
    severity: Severity
    message: str
    """One sentence without a full stop."""
    source: str
    """Where the value was read: a file, an NVML call, the kernel log."""
    basis: str
    """Source of the rule: a document that the reader can open."""
    evidence: tuple[str, ...] = ()
    """The values or the line, a few at most."""
    reader: str = ""
    """The reader of its values, or of the event."""
    event_at: float | None = None
    """Time of the event; None for a condition."""
    confirm: float = 0.0
    """Seconds for which a condition must last before it is a fault."""
    settle: float = 600.0
    """Seconds without the sign before the fault can end."""
    clearing: Clearing = Clearing.QUIET
    disagreement: str = ""
    """How other sources judge the same sign, if they differ."""
    instance: str = ""
    """The GPU's instance of an event; see DeviceEvent."""

    @property
    def key(self) -> FaultKey:
        """Return the identity of the fault."""
        return FaultKey(self.device, self.rule)


class FaultKey(NamedTuple):
    """Identity of a fault: one rule on one device."""

    device: DeviceId
    rule: str


class PodName(NamedTuple):
    """A container of a pod; the container's name may be empty."""

    namespace: str
    pod: str
    container: str = ""

    def __str__(self) -> str:
        container = f" (container {self.container})" if self.container else ""
        return f"{self.namespace}/{self.pod}{container}"


class Fault(NamedTuple):
    """One or more signs of the same rule and device, over time."""

    sign: Sign
    """The newest sign."""
    first: float
    last: float
    """Time when the sign was last present."""
    occurrences: int
    """Number of events, or of observations of a condition."""
    active: bool
    """False for a condition that has not lasted long enough."""
    boot_id: str = ""
    """The boot in which the sign was last present."""
    was_reset: bool = False
    """Whether the device has been reset since."""
    pods: tuple[PodName, ...] = ()
    """The pods that held the device at the time of an event, or hold it now for a condition; at most MAX_PODS."""
    held_since: tuple[float, ...] = ()
    """Start times from which each of these pods has held the device, the last time."""

    @property
    def key(self) -> FaultKey:
        """Return the identity."""
        return self.sign.key


MAX_PODS = 8


# --- observations


class GpuReading(NamedTuple):
    """The current state of a GPU from NVML, in NVML's numbers."""

    address: str
    uuid: str = ""
    lost: bool = False
    ecc_corrected: int | None = None
    """Count since the driver was loaded; so is ecc_uncorrected."""
    ecc_uncorrected: int | None = None
    remapped_pending: bool | None = None
    remapped_failed: bool | None = None
    retired_pages_pending: bool | None = None
    clocks_event_reasons: int | None = None
    """Bits of nvmlClocksEventReasons."""
    recovery_action: int | None = None
    """NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""
    pcie_replays: int | None = None
    nvlinks: int | None = None
    """Number of active links; None if the GPU has none, is in MIG mode, or they are unknown."""
    nvlink_errors: int | None = None
    """Number of replays, recoveries and CRC errors of all links."""
    errors: tuple[str, ...] = ()
    """Queries that failed with an error of the GPU."""


class RasReading(NamedTuple):
    """Errors of an AMD GPU since its driver was loaded, by block: "umc" is its memory, "gfx" its compute units."""

    corrected: dict[str, int] = {}  # noqa: RUF012 -- never written to
    uncorrected: dict[str, int] = {}  # noqa: RUF012 -- never written to


class LinkReading(NamedTuple):
    """The current PCI Express link of a device."""

    speed_gts: float | None
    width: int | None


class PortReading(NamedTuple):
    """The current state of an RDMA device's port."""

    state: str | None
    """"ACTIVE", "DOWN", "INIT", "ARMED"."""
    physical_state: str | None
    rate_gbps: float | None
    counters: dict[str, int] = {}  # noqa: RUF012 -- never written to


class NicReading(NamedTuple):
    """The current state of a physical network device."""

    address: str
    up: bool | None
    """Whether it has a carrier; None if it is administratively down or unknown."""
    speed_mbps: int | None
    carrier_losses: int | None = None
    """How often it has lost its carrier since its driver was loaded."""


class MemoryReading(NamedTuple):
    """Memory errors, as counted by the kernel since boot."""

    corrected: dict[str, int] = {}  # noqa: RUF012 -- as above
    """Counts by DIMM or controller."""
    uncorrected: dict[str, int] = {}  # noqa: RUF012 -- as above
    poisoned: int | None = None
    """Bytes of pages that the kernel has taken out of use (HardwareCorrupted)."""


class CpuReading(NamedTuple):
    """The current state of hardware threads."""

    online: int | None = None
    offline: tuple[int, ...] = ()
    """CPUs that are present but not online."""
    throttles: dict[str, int] = {}  # noqa: RUF012 -- as above
    """Throttle counts since boot, by package ("package 0") or CPU."""


class DeviceEvent(NamedTuple):
    """An event that the kernel log or NVML reported."""

    kind: str
    """"xid", "sxid", "off-bus", "init-failed", "page-fault", "ras-fatal", "gpu-reset", "reset-failed", "wedged", "aer",
    "nic-health" or "memory-failure"."""
    device: DeviceId
    at: float | None
    """Time of the event; None if the source has no time."""
    code: int = 0
    """Number of an XID or SXID."""
    text: str = ""
    """The line, truncated."""
    reader: str = "kernel-log"
    fatal: bool | None = None
    """Whether the line itself calls the error fatal; None if it does not say."""
    instance: str = ""
    """The GPU instance of an XID, or its compute instance: "5" or "5/0"; empty without MIG."""


class HardwareObservation(NamedTuple):
    """All values that were read at one moment."""

    time: float
    boot_id: str = ""
    gpus: dict[str, GpuReading] | None = None
    """GPUs by address; None if NVML gave no facts or was not queried."""
    pci: frozenset[str] | None = None
    """Addresses on the bus; None if unknown."""
    gpu_addresses: frozenset[str] = frozenset()
    """Addresses of the GPUs."""
    nic_addresses: frozenset[str] = frozenset()
    """Addresses of the physical NICs that stay as long as the machine runs."""
    lost: frozenset[str] = frozenset()
    """GPUs on the bus that the driver cannot reach."""
    links: dict[str, LinkReading] = {}  # noqa: RUF012 -- as above
    """Links of GPUs, NICs and the switches above them, by address."""
    ports: dict[str, PortReading] = {}  # noqa: RUF012 -- as above
    """Ports by "device/port"."""
    nics: dict[str, NicReading] = {}  # noqa: RUF012 -- as above
    """NICs by name."""
    memory: MemoryReading = MemoryReading()
    cpus: CpuReading = CpuReading()
    memory_total: int | None = None
    """Bytes that the kernel manages; None if unknown, or if a hypervisor may change them."""
    events: tuple[DeviceEvent, ...] = ()
    silent: frozenset[str] = frozenset()
    """Readers that gave no result now: "pci", "nvml", "memory" or "cpu"."""
    machine_id: str = ""
    """Digest of the firmware's identifier of the machine; empty if unknown."""
    ras: dict[str, RasReading] = {}  # noqa: RUF012 -- as above
    """Error counts of AMD GPUs by address; a GPU whose counts cannot be read is absent."""
    switch_ports: frozenset[str] = frozenset()
    """Addresses in `links` of the switches' ports towards the host."""
    attainable: dict[str, LinkReading] = {}  # noqa: RUF012 -- as above
    """The best links that both of their ends support, by address."""
    drives: dict[str, str] = {}  # noqa: RUF012 -- as above
    """States of NVMe controllers by PCI address: "live", "resetting", "dead"."""


class Baseline(NamedTuple):
    """The devices and performance of a healthy machine, learned or configured."""

    gpus: frozenset[str] = frozenset()
    """Addresses of GPUs."""
    nics: frozenset[str] = frozenset()
    """Addresses of physical NICs."""
    links: dict[str, LinkReading] = {}  # noqa: RUF012 -- as above
    """The best link of each device, by address."""
    rates: dict[str, float] = {}  # noqa: RUF012 -- as above
    """Gb/s of ports and NICs that were up, by "device/port" or name."""
    cpus: int | None = None
    """Number of online hardware threads."""
    memory: int | None = None
    """Memory in bytes."""
    nvlinks: dict[str, int] = {}  # noqa: RUF012 -- as above
    """Number of active links by address."""
