"""Error counters, and how much each has risen within the current hour.

A counter that falls was reset with its device or driver, and counts from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise.health.types import HardwareObservation

WINDOW = 3600.0
"""Seconds after which the rise is counted from the start again."""
MAX_COUNTERS = 4096
"""Maximum number of counters; more would be damage: 16 GPUs, 64 ports, 128 DIMMs and 8 packages have a
fifth of this."""

PORT_COUNTERS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
"""Error counters of a port, Documentation/ABI/stable/sysfs-class-infiniband; their source is PortCounters of the
InfiniBand Architecture Specification."""
CARRIER_LOSSES = "carrier_losses"
"""How often a network device has lost its carrier, Documentation/ABI/testing/sysfs-class-net carrier_down_count."""
RESET_COUNTERS = ("ecc_corrected", "ecc_uncorrected", "pcie_replays")
"""GPU counters that restart at a reset of the GPU or a reload of its driver."""


class Counter(NamedTuple):
    """A counter at the beginning of the window, and now."""

    reference: int
    since: float
    latest: int

    @property
    def rise(self) -> int:
        """Return how much the counter has risen within the window."""
        return self.latest - self.reference


Counters = dict[str, Counter]


def counter_name(device: object, counter: str) -> str:
    """Return the key of a device's counter."""
    return f"{device} {counter}"


def counter_values(observation: HardwareObservation) -> Iterator[tuple[str, int]]:
    """Yield the counters in an observation."""
    yield from _gpu_counters(observation)
    for name, port in observation.ports.items():
        for counter in PORT_COUNTERS:
            if counter in port.counters:
                yield counter_name(f"port {name}", counter), port.counters[counter]
    for name, nic in observation.nics.items():
        if nic.carrier_losses is not None:
            yield counter_name(f"nic {name}", CARRIER_LOSSES), nic.carrier_losses
    for name, value in observation.memory.corrected.items():
        yield counter_name("memory", f"corrected {name}"), value
    for name, value in observation.cpus.throttles.items():
        yield counter_name("cpu", f"throttles {name}"), value


def _gpu_counters(observation: HardwareObservation) -> Iterator[tuple[str, int]]:
    for address, gpu in (observation.gpus or {}).items():
        for counter in (*RESET_COUNTERS, "nvlink_errors"):
            value: int | None = getattr(gpu, counter)
            if value is not None:
                yield counter_name(f"gpu {address}", counter), value
    for address, ras in observation.ras.items():
        for block, count in ras.corrected.items():
            yield counter_name(f"gpu {address}", f"ras {block}"), count


def advance(counters: Mapping[str, Counter], observation: HardwareObservation) -> Counters:
    """Return the counters after an observation; a counter that was not read now is unchanged."""
    now = observation.time
    advanced = dict(counters)
    for name, value in counter_values(observation):
        before = counters.get(name)
        if before is None or value < before.latest:
            advanced[name] = Counter(value, now, value)
        elif now - before.since >= WINDOW or now < before.since:
            advanced[name] = Counter(before.latest, now, value)
        else:
            advanced[name] = before._replace(latest=value)
    return advanced if len(advanced) <= MAX_COUNTERS else dict(list(advanced.items())[-MAX_COUNTERS:])


def reset_gpus(counters: Mapping[str, Counter], observation: HardwareObservation) -> frozenset[str]:
    """Return the addresses of GPUs with a counter that fell: these were reset since the last observation."""
    return frozenset(
        address
        for address, gpu in (observation.gpus or {}).items()
        for counter in RESET_COUNTERS
        if (before := counters.get(counter_name(f"gpu {address}", counter))) is not None
        and (value := getattr(gpu, counter)) is not None
        and value < before.latest
    )
