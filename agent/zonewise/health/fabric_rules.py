"""Rules for links: PCI Express below the baseline, ports of RDMA devices, and network devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.counters import CARRIER_LOSSES, counter_name
from zonewise.health.gpu_rules import IDLE
from zonewise.health.types import GPU, NIC, NODE, PORT, DeviceId, LinkReading, Severity, Sign, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise.health.counters import Counter
    from zonewise.health.types import Baseline, HardwareObservation, NicReading, PortReading

_BASELINE = "the baseline of this node"
_LINK_STATUS = "kernel drivers/pci/pci.c pcie_bandwidth_available, pcie_bandwidth_capable"
_UNKNOWN_LINK = LinkReading(None, None)
_IB = "Documentation/ABI/stable/sysfs-class-infiniband; InfiniBand Architecture Specification, PortCounters"
_NETDEV = "kernel Documentation/ABI/testing/sysfs-class-net"
_CARRIER_LOSSES_PER_HOUR = 4
"""More than the restart of a switch or a change of settings causes."""
_CONFIRM = 30.0
"""Seconds: a link that retrains is up again within a few."""

_SYMBOL_ERRORS_PER_GBPS = 3.6
"""Errors per hour and Gb/s: a bit error rate of 10^-12, the maximum in the InfiniBand specification."""
_LIMITS = {
    "link_error_recovery": 1,
    "link_downed": 1,
    "port_rcv_errors": 10,
    "local_link_integrity_errors": 1,
    "excessive_buffer_overrun_errors": 1,
}
"""Limits of errors per hour."""


def fabric_signs(
    observation: HardwareObservation, baseline: Baseline, counters: Mapping[str, Counter]
) -> Iterator[Sign]:
    """Yield the signs of links."""
    yield from _pci_links(observation, baseline)
    for name, port in observation.ports.items():
        yield from _port(name, port, baseline.rates.get(name))
        yield from _port_errors(name, port, counters)
    yield from _nics(observation, baseline)
    for name, nic in observation.nics.items():
        yield from _flaps(name, nic, counters)


def _pci_links(observation: HardwareObservation, baseline: Baseline) -> Iterator[Sign]:
    """Yield the signs of links that were better before, and notes of those below what both ends support.

    A note means a part, its seat, or the wiring of the slot.
    """
    for address, link in observation.links.items():
        device = _device(observation, address)
        best = baseline.links.get(address, _UNKNOWN_LINK)
        top = observation.attainable.get(address, _UNKNOWN_LINK)
        width = f"/sys/bus/pci/devices/{address}/current_link_width"
        if link.width and _below(link.width, best.width):
            text = f"x{link.width} instead of x{best.width}"
            yield _link(device, "pcie-width", "the PCI Express link has lost lanes", width, text)
        elif link.width and _below(link.width, top.width):
            text = f"x{link.width} instead of x{top.width}"
            message = "the PCI Express link has fewer lanes than both ends support"
            yield _note(_link(device, "pcie-width-below-maximum", message, width, text))
        if not _speed_counts(observation, address):
            continue
        speed = f"/sys/bus/pci/devices/{address}/current_link_speed"
        if _below(link.speed_gts, best.speed_gts):
            text = f"{link.speed_gts:g} GT/s instead of {best.speed_gts:g}"
            yield _link(device, "pcie-speed", "the PCI Express link is slower than before", speed, text)
        elif _below(link.speed_gts, top.speed_gts):
            text = f"{link.speed_gts:g} GT/s instead of {top.speed_gts:g}"
            message = "the PCI Express link is slower than both ends support"
            yield _note(_link(device, "pcie-speed-below-maximum", message, speed, text))


def _below(value: float | None, bound: float | None) -> bool:
    return value is not None and bound is not None and value < bound


def _note(sign: Sign) -> Sign:
    return sign._replace(verdict=Verdict.UNKNOWN, severity=Severity.NOTE, basis=_LINK_STATUS)


def _device(observation: HardwareObservation, address: str) -> DeviceId:
    if address in observation.switch_ports:
        return DeviceId(NODE, f"pci {address}")
    return DeviceId(GPU if address in observation.gpu_addresses else NIC, address)


def _speed_counts(observation: HardwareObservation, address: str) -> bool:
    """Return whether a lower speed is a sign: GPUs, and switches on their cards, lower it when idle, which only NVML
    shows.
    """
    if address not in observation.gpu_addresses:
        return address not in observation.switch_ports
    gpu = (observation.gpus or {}).get(address)
    return gpu is not None and gpu.clocks_event_reasons is not None and not gpu.clocks_event_reasons & IDLE


def _link(device: DeviceId, rule: str, message: str, source: str, evidence: str) -> Sign:
    return Sign(
        device,
        rule,
        Verdict.HARDWARE,
        Severity.DEGRADED,
        message,
        source,
        _BASELINE,
        (evidence,),
        "pci",
        confirm=60.0,
        settle=60.0,
    )


def _port(name: str, port: PortReading, rate: float | None) -> Iterator[Sign]:
    if rate is None:  # it was never up
        return
    directory = f"/sys/class/infiniband/{name.replace('/', '/ports/')}"
    if port.state not in (None, "ACTIVE", "ACTIVE_DEFER"):
        yield _port_down(name, port, directory)
    elif port.rate_gbps is not None and port.rate_gbps < rate:
        yield Sign(
            DeviceId(PORT, name),
            "port-rate",
            Verdict.HARDWARE,
            Severity.DEGRADED,
            "the port is slower than before",
            f"{directory}/rate",
            _BASELINE,
            (f"{port.rate_gbps:g} Gb/s instead of {rate:g}",),
            "infiniband",
            confirm=60.0,
            settle=60.0,
        )


def _port_down(name: str, port: PortReading, directory: str) -> Sign:
    verdict, severity, text = Verdict.HARDWARE, Severity.FAILED, "the port has no link"
    if port.physical_state == "Disabled":
        verdict, severity, text = Verdict.UNKNOWN, Severity.DEGRADED, "the port was disabled"
    elif port.state in ("INIT", "ARMED"):
        verdict, severity = Verdict.UNKNOWN, Severity.DEGRADED
        text = "the subnet manager has not activated the port"
    return Sign(
        DeviceId(PORT, name),
        "port-down",
        verdict,
        severity,
        text,
        f"{directory}/state",
        _IB,
        (f"state {port.state}, physical state {port.physical_state or 'unknown'}",),
        "infiniband",
        confirm=_CONFIRM,
        settle=60.0,
    )


def _port_errors(name: str, port: PortReading, counters: Mapping[str, Counter]) -> Iterator[Sign]:
    symbols = max(10, int(_SYMBOL_ERRORS_PER_GBPS * (port.rate_gbps or 0)))
    for counter, limit in {"symbol_error": symbols, **_LIMITS}.items():
        count = counters.get(counter_name(f"port {name}", counter))
        if count is not None and count.rise >= limit:
            directory = f"/sys/class/infiniband/{name.replace('/', '/ports/')}/counters"
            yield Sign(
                DeviceId(PORT, name),
                f"{counter.replace('_', '-')}-rising",
                Verdict.HARDWARE,
                Severity.DEGRADED,
                "link errors are increasing",
                f"{directory}/{counter}",
                _IB,
                (f"{counter}: {count.rise} within an hour, {limit} allowed",),
                "infiniband",
            )


def _nics(observation: HardwareObservation, baseline: Baseline) -> Iterator[Sign]:
    for name, nic in observation.nics.items():
        rate = baseline.rates.get(name)
        if rate is not None:
            yield from _nic(name, nic, rate)
    if observation.pci is not None:
        yield from map(_vanished, sorted(baseline.nics - observation.pci))


def _nic(name: str, nic: NicReading, rate: float) -> Iterator[Sign]:
    device, directory = DeviceId(NIC, nic.address), f"/sys/class/net/{name}"
    if nic.up is False:
        yield Sign(
            device,
            "nic-down",
            Verdict.HARDWARE,
            Severity.FAILED,
            f"{name} has no carrier",
            f"{directory}/carrier",
            _BASELINE,
            (f"{name}: carrier 0",),
            "net",
            confirm=_CONFIRM,
            settle=60.0,
        )
    elif nic.speed_mbps is not None and nic.speed_mbps / 1000 < rate:
        yield Sign(
            device,
            "nic-speed",
            Verdict.HARDWARE,
            Severity.DEGRADED,
            f"{name} is slower than before",
            f"{directory}/speed",
            _BASELINE,
            (f"{nic.speed_mbps / 1000:g} Gb/s instead of {rate:g}",),
            "net",
            confirm=60.0,
            settle=60.0,
        )


def _flaps(name: str, nic: NicReading, counters: Mapping[str, Counter]) -> Iterator[Sign]:
    counter = counters.get(counter_name(f"nic {name}", CARRIER_LOSSES))
    if counter is not None and counter.rise >= _CARRIER_LOSSES_PER_HOUR:
        yield Sign(
            DeviceId(NIC, nic.address),
            "nic-flapping",
            Verdict.HARDWARE,
            Severity.DEGRADED,
            f"{name} repeatedly loses its carrier",
            f"/sys/class/net/{name}/carrier_down_count",
            _NETDEV,
            (f"{name}: {counter.rise} times within an hour",),
            "net",
        )


def _vanished(address: str) -> Sign:
    return Sign(
        DeviceId(NIC, address),
        "nic-vanished",
        Verdict.HARDWARE,
        Severity.FAILED,
        "the NIC has vanished from the bus",
        "/sys/bus/pci/devices",
        _BASELINE,
        (f"{address} is in the baseline",),
        "pci",
        confirm=_CONFIRM,
        settle=60.0,
    )
