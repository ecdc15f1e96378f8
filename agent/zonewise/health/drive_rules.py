"""Rules for NVMe drives: the state of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.types import DRIVE, DeviceId, Severity, Sign, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.health.types import HardwareObservation

READER = "nvme"
_BASIS = "kernel drivers/nvme/host/pci.c nvme_reset_work"
_DEAD = "dead"
"""The state after a reset that failed. The driver has given up on the drive, and its namespaces have the size 0."""


def drive_signs(observation: HardwareObservation) -> Iterator[Sign]:
    """Yield the signs of drives that the driver has given up."""
    for address, state in observation.drives.items():
        if state == _DEAD:
            yield Sign(
                DeviceId(DRIVE, address),
                "nvme-dead",
                Verdict.UNKNOWN,
                Severity.FAILED,
                "the driver could not reset the drive and has given up on it",
                "/sys/class/nvme/*/state",
                _BASIS,
                (f"state {state}",),
                READER,
                confirm=30.0,  # a drive that is pulled out is dead until it is off the bus
                settle=60.0,
            )
