"""Whether the source of a fault has a value now. If it has none, the fault does not end: unknown is not healthy.

A port disappears with its driver. A NIC moves into the network namespace of a pod. NVML leaves out a GPU that fell off
the bus. Each of them would look healthy if a missing value ended a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.types import MEMORY

if TYPE_CHECKING:
    from zonewise.health.types import GpuReading, HardwareObservation, Sign

_VANISHED = "-vanished"
"""Suffix of the names of rules that check whether the device is on the bus."""


def is_silent(sign: Sign, observation: HardwareObservation) -> bool:
    """Return whether an observation has no value from which the rule could make this sign; False for an event."""
    if sign.event_at is not None:
        return False
    return sign.reader in observation.silent or _lacks_value(sign, observation)


def _lacks_value(sign: Sign, observation: HardwareObservation) -> bool:
    name, memory, cpus = sign.device.name, observation.memory, observation.cpus
    match sign.reader:
        case "nvml":
            gpu = (observation.gpus or {}).get(name)
            lacks = gpu is None or gpu.lost or _failing_query(sign.source, gpu)
        case "nvme":
            lacks = name not in observation.drives
        case "ras":
            lacks = _lacks_count(sign, observation)
        case "pci":
            lacks = _lacks_pci_value(sign, observation)
        case "infiniband":
            port = observation.ports.get(name)
            lacks = port is None or port.state is None
        case "net":
            lacks = all(nic.up is None for nic in observation.nics.values() if nic.address == name)
        case "edac":
            lacks = name not in memory.corrected and name not in memory.uncorrected
        case "memory":
            lacks = (memory.poisoned if sign.device.kind == MEMORY else observation.memory_total) is None
        case "cpu":
            lacks = name not in cpus.throttles if name else cpus.online is None
        case _:
            lacks = False
    return lacks


def _failing_query(source: str, gpu: GpuReading) -> bool:
    """Return whether the query for a value failed; a query that the GPU does not support has not failed."""
    call = "nvmlDeviceGetFieldValues" if source.startswith("NVML_FI_") else source
    return any(error.startswith(f"{call}:") for error in gpu.errors)


def _lacks_count(sign: Sign, observation: HardwareObservation) -> bool:
    """Return whether the count of a block that the evidence names is unknown."""
    ras = observation.ras.get(sign.device.name)
    return ras is None or any(text.partition(":")[0] not in ras.uncorrected for text in sign.evidence)


def _lacks_pci_value(sign: Sign, observation: HardwareObservation) -> bool:
    if sign.rule.endswith(_VANISHED):
        return observation.pci is None
    link = observation.links.get(sign.device.name.removeprefix("pci "))
    return link is None or not (link.width if sign.rule.startswith("pcie-width") else link.speed_gts)
