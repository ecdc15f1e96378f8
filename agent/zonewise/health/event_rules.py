"""Rules for events: XIDs and other lines of the kernel log, and XIDs that NVML reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.types import Clearing, DeviceEvent, Severity, Sign, Verdict
from zonewise.health.xid_catalog import BASIS, FALLEN_OFF_THE_BUS, xid_rule

if TYPE_CHECKING:
    from collections.abc import Callable

_SOURCES = {"kernel-log": "kernel log", "nvml-events": "NVML event XidCriticalError"}
_APPLICATION_SETTLE = 600.0
"""Seconds for which an XID caused by a program is shown, as in gpud (docs/COMPONENTS.md)."""
_FATAL = Severity.FAILED, Clearing.RESET
_DRIVER_SOURCE = "kernel-open/nvidia/nv.c of the open kernel modules"
DRIVER_RESET = "gpu-reset"
"""The rule of a successful reset by the driver, which ends faults that last until a reset."""
_AMDGPU = "kernel drivers/gpu/drm/amd/amdgpu"
_NVSWITCH = "NVIDIA Fabric Manager user guide, appendix D (docs.nvidia.com/datacenter/tesla)"


def event_sign(event: DeviceEvent, now: float) -> Sign:
    """Return the sign for an event; an event without a time happened now."""
    return _RULES[event.kind](event)._replace(
        source=_SOURCES.get(event.reader, event.reader),
        evidence=(event.text,) if event.text else (),
        reader=event.reader,
        event_at=now if event.at is None else min(event.at, now),
        instance=event.instance,
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
    severity, clearing = _FATAL if event.fatal else (Severity.NOTE, Clearing.QUIET)
    message = f"SXID {event.code} of an NVSwitch"
    return _sign(event, f"sxid-{event.code}", Verdict.HARDWARE, severity, message, _NVSWITCH, clearing)


def _off_bus(event: DeviceEvent) -> Sign:
    """Return the sign for the off-bus line, which has no XID, under the rule of the XID with the same meaning."""
    return _xid(event._replace(code=FALLEN_OFF_THE_BUS, fatal=None))._replace(
        message="the GPU has fallen off the bus", basis=_DRIVER_SOURCE
    )


def _init_failed(event: DeviceEvent) -> Sign:
    basis = f"{_DRIVER_SOURCE}, RmInitAdapter"
    return _sign(event, "init-failed", Verdict.UNKNOWN, _FATAL[0], "the driver cannot start the GPU", basis, _FATAL[1])


def _page_fault(event: DeviceEvent) -> Sign:
    """Return the sign for an access to an unmapped address; without a process it is an access of the driver."""
    verdict = Verdict.DRIVER if event.code == 0 else Verdict.APPLICATION
    basis = "kernel Documentation/gpu/amdgpu/debugging.rst"
    sign = _sign(event, "page-fault", verdict, Severity.NOTE, "memory page fault", basis, Clearing.QUIET)
    return sign._replace(settle=_APPLICATION_SETTLE)


def _ras_fatal(event: DeviceEvent) -> Sign:
    basis = f"{_AMDGPU}/amdgpu_ras.c amdgpu_ras_global_ras_isr"
    return _sign(event, "ras-fatal", Verdict.HARDWARE, _FATAL[0], "uncorrected error of the GPU", basis, _FATAL[1])


def _driver_reset(event: DeviceEvent) -> Sign:
    basis, message = f"{_AMDGPU}/amdgpu_device.c", "the driver has reset the GPU"
    return _sign(event, DRIVER_RESET, Verdict.UNKNOWN, Severity.NOTE, message, basis, Clearing.QUIET)


def _reset_failed(event: DeviceEvent) -> Sign:
    basis, message = f"{_AMDGPU}/amdgpu_device.c", "the driver could not reset the GPU"
    return _sign(event, "reset-failed", Verdict.UNKNOWN, _FATAL[0], message, basis, _FATAL[1])


def _wedged(event: DeviceEvent) -> Sign:
    basis = "kernel Documentation/gpu/drm-uapi.rst, Device Wedging"
    return _sign(event, "wedged", Verdict.UNKNOWN, _FATAL[0], "the driver cannot use the GPU", basis, _FATAL[1])


def _aer(event: DeviceEvent) -> Sign:
    severity, clearing = _FATAL if event.fatal else (Severity.DEGRADED, Clearing.QUIET)
    basis = "kernel Documentation/PCI/pcieaer-howto.rst"
    message = "uncorrected PCI Express error"
    return _sign(event, "pcie-uncorrected", Verdict.HARDWARE, severity, message, basis, clearing)


def _nic_health(event: DeviceEvent) -> Sign:
    basis = "kernel drivers/net/ethernet/mellanox/mlx5/core/health.c"
    return _sign(event, "nic-firmware", Verdict.DRIVER, _FATAL[0], "the NIC's firmware has stopped", basis, _FATAL[1])


def _memory_failure(event: DeviceEvent) -> Sign:
    message, basis = "the kernel handled a memory failure", "kernel mm/memory-failure.c"
    return _sign(event, "memory-failure", Verdict.HARDWARE, Severity.DEGRADED, message, basis, Clearing.QUIET)


def _sign(
    event: DeviceEvent, rule: str, verdict: Verdict, severity: Severity, message: str, basis: str, clearing: Clearing
) -> Sign:
    return Sign(event.device, rule, verdict, severity, message, "", basis, clearing=clearing)


_RULES: dict[str, Callable[[DeviceEvent], Sign]] = {
    "xid": _xid,
    "sxid": _sxid,
    "off-bus": _off_bus,
    "init-failed": _init_failed,
    "page-fault": _page_fault,
    "ras-fatal": _ras_fatal,
    "gpu-reset": _driver_reset,
    "reset-failed": _reset_failed,
    "wedged": _wedged,
    "aer": _aer,
    "nic-health": _nic_health,
    "memory-failure": _memory_failure,
}
