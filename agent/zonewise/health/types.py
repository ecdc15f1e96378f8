"""Values of health: what was observed, what rules see in it, and the faults that follow.

Times are seconds since the epoch. None is "unknown", which is never the same as zero or as healthy.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """Which of them is at fault."""

    APPLICATION = "application"
    DRIVER = "driver"
    """The driver or the firmware of a device."""
    HARDWARE = "hardware"
    UNKNOWN = "unknown"


class Severity(IntEnum):
    """What a fault means for the device. Applications cause notes only."""

    NOTE = 0
    """The device works: an Event and a metric."""
    DEGRADED = 1
    """The device works, slower or at risk: a condition of the Node besides."""
    FAILED = 2
    """The device must not be used: it may leave the available resources."""


class Clearing(StrEnum):
    """What ends a fault, besides `Sign.settle` seconds without its sign."""

    QUIET = "quiet"
    """Nothing else."""
    RESET = "reset"
    """A reset of the device, a reload of its driver, or a reboot."""
    REBOOT = "reboot"


GPU, NIC, PORT, CPU, MEMORY, NODE = "gpu", "nic", "port", "cpu", "memory", "node"
"""Kinds of devices; a port is one of an RDMA device."""


class DeviceId(NamedTuple):
    """A part of the machine."""

    kind: str
    name: str
    """A GPU or NIC by its PCI address, a port as "mlx5_0/1", a CPU by its number."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


class Sign(NamedTuple):
    """What one rule sees in one observation: a condition that holds now, or an event."""

    device: DeviceId
    rule: str
    """The rule's stable name: "xid-79"."""
    verdict: Verdict
    severity: Severity
    message: str
    """One sentence without a full stop."""
    source: str
    """Where the value was read: a file, a call of NVML, the kernel log."""
    basis: str
    """Where the rule is from: a document that the reader can open."""
    evidence: tuple[str, ...] = ()
    """The values or the line, at most a few."""
    reader: str = ""
    """The reader of its values; for an event, of the event."""
    event_at: float | None = None
    """When it happened; None for a condition that holds."""
    confirm: float = 0.0
    """Seconds for which a condition must hold before it is a fault."""
    settle: float = 600.0
    """Seconds without the sign before the fault can end."""
    clearing: Clearing = Clearing.QUIET
    disagreement: str = ""
    """How other sources judge the same sign, where they differ."""

    @property
    def key(self) -> FaultKey:
        """Return the identity of the fault."""
        return FaultKey(self.device, self.rule)


class FaultKey(NamedTuple):
    """A fault is one rule on one device."""

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
    """A sign, or several of the same rule and device, over time."""

    sign: Sign
    """The newest."""
    first: float
    last: float
    """When the sign was last there."""
    occurrences: int
    """Events, or observations of a condition."""
    active: bool
    """False: a condition that has not held for long enough."""
    boot_id: str = ""
    """The boot in which the sign was last there."""
    was_reset: bool = False
    """Whether the device was reset since."""
    pods: tuple[PodName, ...] = ()
    """Those that held the device at the time of an event, or now for a condition; at most MAX_PODS."""
    held_since: tuple[float, ...] = ()
    """Since when each of these has held the device, the last time."""

    @property
    def key(self) -> FaultKey:
        """Return the identity."""
        return self.sign.key


MAX_PODS = 8


# --- observations


class GpuReading(NamedTuple):
    """A GPU now, by NVML; in its numbers."""

    address: str
    uuid: str = ""
    lost: bool = False
    ecc_corrected: int | None = None
    """Since the driver was loaded, as ecc_uncorrected."""
    ecc_uncorrected: int | None = None
    remapped_pending: bool | None = None
    remapped_failed: bool | None = None
    retired_pages_pending: bool | None = None
    clocks_event_reasons: int | None = None
    """Bits, nvmlClocksEventReasons."""
    recovery_action: int | None = None
    """NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""
    pcie_replays: int | None = None
    nvlinks: int | None = None
    """Active links; None where it has none or they are unknown."""
    nvlink_errors: int | None = None
    """Replays, recoveries and CRC errors of all links."""
    errors: tuple[str, ...] = ()
    """Queries that failed with an error of the GPU."""


class LinkReading(NamedTuple):
    """The PCI Express link of a device now."""

    speed_gts: float | None
    width: int | None


class PortReading(NamedTuple):
    """A port of an RDMA device now."""

    state: str | None
    """"ACTIVE", "DOWN", "INIT", "ARMED"."""
    physical_state: str | None
    rate_gbps: float | None
    counters: dict[str, int] = {}  # noqa: RUF012 -- never written to


class NicReading(NamedTuple):
    """A physical network device now."""

    address: str
    up: bool | None
    """Whether it has a carrier; None where it is administratively down or unknown."""
    speed_mbps: int | None


class MemoryReading(NamedTuple):
    """Memory errors, as counted by the kernel since boot."""

    corrected: dict[str, int] = {}  # noqa: RUF012 -- as above
    """By DIMM or controller."""
    uncorrected: dict[str, int] = {}  # noqa: RUF012 -- as above
    poisoned: int | None = None
    """Bytes of pages that the kernel has taken out of use (HardwareCorrupted)."""


class CpuReading(NamedTuple):
    """Hardware threads now."""

    online: int | None = None
    offline: tuple[int, ...] = ()
    """Present and not online."""
    throttles: dict[str, int] = {}  # noqa: RUF012 -- as above
    """Counts since boot by package ("package 0") or CPU."""


class DeviceEvent(NamedTuple):
    """An event that the kernel log or NVML reported."""

    kind: str
    """"xid", "sxid", "off-bus", "init-failed", "aer", "nic-health" or "memory-failure"."""
    device: DeviceId
    at: float | None
    """None where the source has no time."""
    code: int = 0
    """Of an XID or SXID."""
    text: str = ""
    """The line, cut."""
    reader: str = "kernel-log"
    fatal: bool | None = None
    """As the line itself says; None where it does not."""


class HardwareObservation(NamedTuple):
    """All that was read at one moment."""

    time: float
    boot_id: str = ""
    gpus: dict[str, GpuReading] | None = None
    """By address; None: NVML gave nothing, or was not queried."""
    pci: frozenset[str] | None = None
    """Addresses of the GPUs and NICs on the bus; None: unknown."""
    gpu_addresses: frozenset[str] = frozenset()
    """Of these, the GPUs."""
    lost: frozenset[str] = frozenset()
    """GPUs on the bus that the driver does not reach."""
    links: dict[str, LinkReading] = {}  # noqa: RUF012 -- as above
    """By address, of GPUs and NICs."""
    ports: dict[str, PortReading] = {}  # noqa: RUF012 -- as above
    """By "device/port"."""
    nics: dict[str, NicReading] = {}  # noqa: RUF012 -- as above
    """By name."""
    memory: MemoryReading = MemoryReading()
    cpus: CpuReading = CpuReading()
    memory_total: int | None = None
    """Bytes that the kernel manages."""
    events: tuple[DeviceEvent, ...] = ()
    silent: frozenset[str] = frozenset()
    """Readers without any result now: "pci", "nvml", "memory" or "cpu"."""


class Baseline(NamedTuple):
    """What a healthy machine has, learned or configured."""

    gpus: frozenset[str] = frozenset()
    """Addresses."""
    nics: frozenset[str] = frozenset()
    """Addresses of physical NICs."""
    links: dict[str, LinkReading] = {}  # noqa: RUF012 -- as above
    """The best by address."""
    rates: dict[str, float] = {}  # noqa: RUF012 -- as above
    """Gb/s of ports and NICs that were up, by "device/port" or by name."""
    cpus: int | None = None
    """Online hardware threads."""
    memory: int | None = None
    """Bytes."""
    nvlinks: dict[str, int] = {}  # noqa: RUF012 -- as above
    """Active links by address."""
