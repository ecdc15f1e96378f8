"""Faults as the API shows them: conditions of the Node and of pods, events, an attribute in the report.

The conditions of a Node are few and stable. Each is True while a device of its kind is degraded or has failed from any
cause other than a program. A note makes an event, but no Node condition.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from zonewise.health.report import utc
from zonewise.health.types import CPU, DRIVE, GPU, MEMORY, NIC, NODE, PORT, Severity, Verdict
from zonewise_common.k8s.hardware_conditions import (
    CPU_FAULT,
    FABRIC_DEGRADED,
    GPU_FAULT,
    INVENTORY_DRIFT,
    MEMORY_FAULT,
    NO_FAULT,
    NODE_CONDITIONS,
    POD_CONDITION,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.health.types import Fault

_KINDS = {
    GPU: GPU_FAULT,
    NIC: FABRIC_DEGRADED,
    PORT: FABRIC_DEGRADED,
    MEMORY: MEMORY_FAULT,
    CPU: CPU_FAULT,
    DRIVE: INVENTORY_DRIFT,  # the machine has lost a drive, and the remedy is the same
    NODE: FABRIC_DEGRADED,  # NVSwitches, and PCI bridges
}
_DRIFTS = frozenset({"gpu-vanished", "nic-vanished", "memory-missing", "cpus-offline"})
_FABRIC_RULES = frozenset({"nvlinks-inactive", "nvlink-errors-rising", "pcie-width", "pcie-speed"})
_ACRONYMS = frozenset({"xid", "sxid", "ras", "gpu", "nic", "pcie", "ecc", "nvml", "edac", "cpu", "nvme"})
_MAX_MESSAGE = 1000
_STATUSES = {Verdict.HARDWARE: "True", Verdict.DRIVER: "True", Verdict.APPLICATION: "False", Verdict.UNKNOWN: "Unknown"}


class Condition(NamedTuple):
    """A condition without its times."""

    type: str
    status: str
    reason: str
    message: str


def node_conditions(faults: Iterable[Fault]) -> tuple[Condition, ...]:
    """Return all conditions of the Node, True or False."""
    by_type: dict[str, list[Fault]] = {name: [] for name in NODE_CONDITIONS}
    for fault in faults:
        if fault.active and fault.sign.severity > Severity.NOTE:
            by_type[_condition_type(fault)].append(fault)
    return tuple(_node_condition(name, group) for name, group in by_type.items())


def pod_condition(fault: Fault) -> Condition | None:
    """Return the condition of a pod that a fault hit; None if the fault would not end a pod.

    A device that has not failed sets no pod condition: the pod may end for another reason. An event does, and its
    message has the device, the verdict and the time.
    """
    sign = fault.sign
    is_event = sign.event_at is not None
    if not is_event and sign.severity < Severity.FAILED:
        return None
    if sign.severity is Severity.NOTE and sign.verdict is not Verdict.APPLICATION:
        return None
    message = f"{sign.message} ({sign.device}); verdict {sign.verdict}; at {utc(fault.last)}; {sign.basis}"
    return Condition(POD_CONDITION, _STATUSES[sign.verdict], reason(sign.rule), message[:_MAX_MESSAGE])


def reason(rule: str) -> str:
    """Return a rule's name as the reason of a condition or an event: "XID79", "GPULost"."""
    return "".join(part.upper() if part in _ACRONYMS else part.capitalize() for part in rule.split("-"))


def event_message(fault: Fault) -> str:
    """Return the message of an event: the sign, the verdict, its source and its rule."""
    sign = fault.sign
    parts = [
        f"{sign.device}: {sign.message}",
        f"verdict: {sign.verdict}",
        f"source: {sign.source}",
        f"rule: {sign.basis}",
    ]
    parts += [sign.disagreement] if sign.disagreement else []
    parts += [f"pods: {', '.join(map(str, fault.pods))}"] if fault.pods else []
    parts += [f"evidence: {'; '.join(sign.evidence)}"] if sign.evidence else []
    return "; ".join(parts)


def event_suffix(fault: Fault) -> str:
    """Return the suffix that distinguishes a fault's event from those of other faults of the same object; stable over
    restarts.
    """
    digest = hashlib.sha256(f"{fault.sign.device} {fault.sign.rule} {fault.first:.0f}".encode()).hexdigest()
    return f"zonewise-{digest[:10]}"


def device_health(faults: Iterable[Fault]) -> dict[str, str]:
    """Return the health of faulty devices by name, as the report shows it: "failed: xid-79 (hardware)"."""
    worst: dict[str, Fault] = {}
    for fault in faults:
        if fault.active and fault.sign.severity > Severity.NOTE:
            name = fault.sign.device.name
            if name not in worst or fault.sign.severity > worst[name].sign.severity:
                worst[name] = fault
    return {
        name: f"{fault.sign.severity.name.lower()}: {fault.sign.rule} ({fault.sign.verdict})"
        for name, fault in worst.items()
    }


def _condition_type(fault: Fault) -> str:
    if fault.sign.rule in _DRIFTS:
        return INVENTORY_DRIFT
    return FABRIC_DEGRADED if fault.sign.rule in _FABRIC_RULES else _KINDS[fault.sign.device.kind]


def _node_condition(name: str, faults: list[Fault]) -> Condition:
    if not faults:
        return Condition(name, "False", NO_FAULT, "no fault")
    ordered = sorted(faults, key=lambda fault: (-fault.sign.severity, fault.first, fault.key))
    texts = [f"{fault.sign.device}: {fault.sign.message} (verdict {fault.sign.verdict})" for fault in ordered]
    return Condition(name, "True", reason(ordered[0].sign.rule), "; ".join(texts)[:_MAX_MESSAGE])
