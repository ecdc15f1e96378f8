"""Rules for AMD GPUs: the errors that their driver counts by block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.counters import counter_name
from zonewise.health.types import GPU, DeviceId, Severity, Sign, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise.health.counters import Counter
    from zonewise.health.types import HardwareObservation

READER = "ras"
_BASIS = "kernel Documentation/gpu/amdgpu/ras.rst"
_CORRECTED_PER_HOUR = 1000
_SHOWN = 3
"""Maximum number of blocks in the evidence."""


def amd_signs(observation: HardwareObservation, counters: Mapping[str, Counter]) -> Iterator[Sign]:
    """Yield the signs of errors of AMD GPUs."""
    for address, ras in observation.ras.items():
        errors = [f"{block}: {count} uncorrected errors" for block, count in ras.uncorrected.items() if count]
        if errors:
            message = "uncorrected errors since the driver was loaded"
            yield _sign(address, "ras-uncorrected", Severity.DEGRADED, message, errors)
        rises = {block: counters.get(counter_name(f"gpu {address}", f"ras {block}")) for block in ras.corrected}
        many = [
            f"{block}: {counter.rise} within an hour"
            for block, counter in rises.items()
            if counter is not None and counter.rise >= _CORRECTED_PER_HOUR
        ]
        if many:
            yield _sign(address, "ras-corrected-rising", Severity.NOTE, "many corrected errors", many)


def _sign(address: str, rule: str, severity: Severity, message: str, evidence: list[str]) -> Sign:
    return Sign(
        DeviceId(GPU, address),
        rule,
        Verdict.HARDWARE,
        severity,
        message,
        f"/sys/bus/pci/devices/{address}/ras",
        _BASIS,
        tuple(evidence[:_SHOWN]),
        READER,
        settle=60.0,
    )
