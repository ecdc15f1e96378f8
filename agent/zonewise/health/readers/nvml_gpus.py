"""Current state of GPUs from NVML's facts: those of the child process, of the test double, or of a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.types import GpuReading

if TYPE_CHECKING:
    from zonewise.machine.nvml.facts import NvmlFacts, NvmlGpu


def gpu_readings(facts: NvmlFacts | None) -> dict[str, GpuReading] | None:
    """Return the GPUs by address; None if NVML gave no facts: the state of the GPUs is then unknown."""
    if facts is None or facts.problem is not None or "gpus" in facts.absent:
        return None
    return {gpu.address: _reading(gpu, gpu.address) for gpu in facts.gpus if gpu.address is not None}


def _reading(gpu: NvmlGpu, address: str) -> GpuReading:
    rows = gpu.remapped_rows
    return GpuReading(
        address,
        gpu.uuid or "",
        gpu.lost,
        gpu.ecc_corrected,
        gpu.ecc_uncorrected,
        bool(rows[2]) if rows else None,
        bool(rows[3]) if rows else None,
        gpu.retired_pages_pending,
        gpu.clocks_event_reasons,
        gpu.recovery_action,
        gpu.pcie_replays,
        _active_links(gpu),
        gpu.nvlink_errors,
        () if gpu.lost else gpu.faults,
    )


def _active_links(gpu: NvmlGpu) -> int | None:
    """Return the number of active NVLinks; None without any, and in MIG mode, in which the driver may power them off.

    Source: NVIDIA Fabric Manager user guide, Interoperability with MIG.
    """
    is_split = gpu.mig_mode is not None and gpu.mig_mode[0] != 0
    return sum(link.active for link in gpu.links) if gpu.links and not is_split else None
