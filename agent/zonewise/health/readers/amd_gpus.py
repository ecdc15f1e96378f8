"""Current error counts of AMD GPUs, as their driver keeps them by block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.types import RasReading
from zonewise.machine.collectors.gpu.amd_ras import AMDGPU, error_counts, ras_files
from zonewise.machine.collectors.pci.functions import DEVICES

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader


def read_ras(read: Reader, machine: Machine) -> dict[str, RasReading]:
    """Return the counts of GPUs by address; a GPU without a count, or whose counts cannot be read now, is left out."""
    own = [gpu.address for gpu in machine.gpus if gpu.driver == AMDGPU and gpu.address is not None]
    readings = {address: _reading(read, f"{DEVICES}/{address}") for address in own}
    return {address: reading for address, reading in readings.items() if reading != RasReading()}


def _reading(read: Reader, path: str) -> RasReading:
    counts = {block: error_counts(read.text(file)) for block, file in ras_files(read, path).items()}
    return RasReading(
        {block: errors["ce"] for block, errors in counts.items() if "ce" in errors},
        {block: errors["ue"] for block, errors in counts.items() if "ue" in errors},
    )
