"""Rules for events: XIDs and other lines of the kernel log, and XIDs that NVML reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.types import Clearing, DeviceEvent, Severity, Sign, Verdict
from zonewise.health.xid_catalog import BASIS, FALLEN_OFF_THE_BUS, xid_rule

if TYPE_CHECKING:
    from collections.abc import Callable

_SOURCES = {"kernel-log": "kernel log", "nvml-events": "NVML event XidCriticalError"}
_APPLICATION_SETTLE = 600.0
"""Seconds for which an XID of a program is shown, as gpud does (docs/COMPONENTS.md)."""
_NVSWITCH = "NVIDIA Fabric Manager user guide, appendix D (docs.nvidia.com/datacenter/tesla)"


def event_sign(event: DeviceEvent, now: float) -> Sign:
    """Return the sign that an event is; an event without a time happened now."""
    return _RULES[event.kind](event)._replace(
        source=_SOURCES.get(event.reader, event.reader),
        evidence=(event.text,) if event.text else (),
        reader=event.reader,
        event_at=now if event.at is None else min(event.at, now),
    )


def _xid(event: DeviceEvent) -> Sign:
    rule = xid_rule(event.code, fatal=event.fatal)
    return Sign(
        event.device,
        f"xid-{event.code}",
        rule.verdict,
        rule.severity,
        f"XID {event.code}: {rule.text}",
        "",
        BASIS,
        settle=_APPLICATION_SETTLE,
        clearing=rule.clearing,
        disagreement=rule.disagreement,
    )


def _sxid(event: DeviceEvent) -> Sign:
    severity = Severity.NOTE if event.fatal is False else Severity.FAILED
    clearing = Clearing.QUIET if event.fatal is False else Clearing.RESET
    return Sign(
        event.device,
        f"sxid-{event.code}",
        Verdict.HARDWARE,
        severity,
        f"SXID {event.code} of an NVSwitch",
        "",
        _NVSWITCH,
        clearing=clearing,
    )


def _off_bus(event: DeviceEvent) -> Sign:
    """Return the sign of the line without an XID, under the rule of the XID that means the same."""
    return _xid(event._replace(code=FALLEN_OFF_THE_BUS, fatal=None))._replace(
        message="the GPU has fallen off the bus", basis="kernel-open/nvidia/nv.c of the open kernel modules"
    )


def _init_failed(event: DeviceEvent) -> Sign:
    return Sign(
        event.device,
        "init-failed",
        Verdict.UNKNOWN,
        Severity.FAILED,
        "the driver cannot start the GPU",
        "",
        "kernel-open/nvidia/nv.c of the open kernel modules, RmInitAdapter",
        clearing=Clearing.RESET,
    )


def _aer(event: DeviceEvent) -> Sign:
    severity = Severity.FAILED if event.fatal else Severity.DEGRADED
    clearing = Clearing.RESET if event.fatal else Clearing.QUIET
    return Sign(
        event.device,
        "pcie-uncorrected",
        Verdict.HARDWARE,
        severity,
        "uncorrected PCI Express error",
        "",
        "kernel Documentation/PCI/pcieaer-howto.rst",
        clearing=clearing,
    )


def _nic_health(event: DeviceEvent) -> Sign:
    return Sign(
        event.device,
        "nic-firmware",
        Verdict.DRIVER,
        Severity.FAILED,
        "the NIC's firmware has stopped",
        "",
        "kernel drivers/net/ethernet/mellanox/mlx5/core/health.c",
        clearing=Clearing.RESET,
    )


def _memory_failure(event: DeviceEvent) -> Sign:
    return Sign(
        event.device,
        "memory-failure",
        Verdict.HARDWARE,
        Severity.DEGRADED,
        "the kernel handled a memory failure",
        "",
        "kernel mm/memory-failure.c",
    )


_RULES: dict[str, Callable[[DeviceEvent], Sign]] = {
    "xid": _xid,
    "sxid": _sxid,
    "off-bus": _off_bus,
    "init-failed": _init_failed,
    "aer": _aer,
    "nic-health": _nic_health,
    "memory-failure": _memory_failure,
}
