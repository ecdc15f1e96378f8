"""Rules for GPUs: their state, memory, clocks and NVLinks, as NVML reports them, and their PCI Express link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.counters import counter_name
from zonewise.health.types import GPU, Clearing, DeviceId, Severity, Sign, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise.health.counters import Counter
    from zonewise.health.types import Baseline, GpuReading, HardwareObservation

READER = "nvml"
_NVML = "NVML API reference (docs.nvidia.com/deploy/nvml-api)"
_REMAPPING = "NVIDIA GPU memory error management (docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt)"

_SLOWDOWNS = {0x8: "hardware slowdown", 0x40: "hardware thermal slowdown", 0x80: "hardware power brake"}
"""Bits of nvmlClocksEventReasons that a healthy GPU never has for long; idle, power cap and application clocks are
normal."""
IDLE = 0x1
"""nvmlClocksEventReasonGpuIdle: the GPU may have lowered its PCI Express speed to save power."""
_RECOVERY = {
    1: ("reset the GPU", Severity.DEGRADED),
    2: ("reboot the node", Severity.FAILED),
    3: ("drain peer-to-peer traffic", Severity.DEGRADED),
    4: ("drain and reset the GPU", Severity.FAILED),
    5: ("recover the IMEX domain", Severity.DEGRADED),
    6: ("reset the bus", Severity.FAILED),
    7: ("reboot the system", Severity.FAILED),
}
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, nvmlDeviceGpuRecoveryAction_t."""
_LONG = 300.0
"""Seconds of reduced clocks that are longer than a burst of load."""
_BRIEF = 30.0
"""Seconds within which a device that restarts is back."""

_CORRECTED_PER_HOUR = 1000
_REPLAYS_PER_HOUR = 1000
_NVLINK_ERRORS_PER_HOUR = 100


def gpu_signs(observation: HardwareObservation, baseline: Baseline, counters: Mapping[str, Counter]) -> Iterator[Sign]:
    """Yield the signs of GPU faults."""
    yield from _absent(observation, baseline)
    for address, gpu in (observation.gpus or {}).items():
        if gpu.lost:
            continue
        for sign in _memory(gpu):
            yield sign._replace(basis=_REMAPPING)
        yield from _driver(gpu)
        yield from _clocks(gpu)
        yield from _nvlinks(gpu, baseline.nvlinks.get(address))
        yield from _rises(gpu, counters)


def _absent(observation: HardwareObservation, baseline: Baseline) -> Iterator[Sign]:
    lost = {address for address, gpu in (observation.gpus or {}).items() if gpu.lost}
    for address in sorted(lost | observation.lost):
        yield _hardware(
            address,
            "gpu-lost",
            Severity.FAILED,
            "the driver has lost the GPU",
            "nvmlDeviceGetUUID",
            ("GPU is lost",),
            confirm=0.0 if address in lost else _BRIEF,
            clearing=Clearing.RESET,
        )
    for address in sorted(baseline.gpus - (baseline.gpus if observation.pci is None else observation.pci)):
        yield _hardware(
            address,
            "gpu-vanished",
            Severity.FAILED,
            "the GPU has vanished from the bus",
            "/sys/bus/pci/devices",
            (f"{address} is in the baseline",),
            confirm=_BRIEF,
        )._replace(reader="pci", basis="the baseline of this node")


def _memory(gpu: GpuReading) -> Iterator[Sign]:
    address = gpu.address
    if gpu.ecc_uncorrected:
        yield _hardware(
            address,
            "ecc-uncorrected",
            Severity.DEGRADED,
            "uncorrected ECC errors since the driver was loaded",
            "nvmlDeviceGetTotalEccErrors",
            (f"{gpu.ecc_uncorrected} uncorrected errors",),
        )
    if gpu.remapped_failed:
        yield _hardware(
            address,
            "row-remapping-failed",
            Severity.FAILED,
            "the GPU has no spare row of memory left to remap to",
            "nvmlDeviceGetRemappedRows",
            ("failure = 1",),
        )
    if gpu.remapped_pending or gpu.retired_pages_pending:
        call = "nvmlDeviceGetRemappedRows" if gpu.remapped_pending else "nvmlDeviceGetRetiredPagesPendingStatus"
        yield _hardware(
            address,
            "row-remapping-pending",
            Severity.DEGRADED,
            "memory is replaced at the next reset of the GPU",
            call,
            ("pending = 1",),
        )


def _driver(gpu: GpuReading) -> Iterator[Sign]:
    if gpu.recovery_action in _RECOVERY:
        action, severity = _RECOVERY[gpu.recovery_action]
        yield _hardware(
            gpu.address,
            "recovery-action",
            severity,
            f"the driver asks to {action}",
            "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
            (f"action {gpu.recovery_action}",),
        )._replace(verdict=Verdict.UNKNOWN)
    if gpu.errors:
        yield _hardware(
            gpu.address,
            "nvml-errors",
            Severity.DEGRADED,
            "queries to the GPU fail",
            gpu.errors[0].partition(":")[0],
            gpu.errors[:3],
            confirm=60.0,
        )._replace(verdict=Verdict.DRIVER)


def _clocks(gpu: GpuReading) -> Iterator[Sign]:
    reasons = [text for bit, text in _SLOWDOWNS.items() if (gpu.clocks_event_reasons or 0) & bit]
    if reasons:
        yield _hardware(
            gpu.address,
            "gpu-slowdown",
            Severity.DEGRADED,
            f"clocks are reduced by {reasons[-1]}",
            "nvmlDeviceGetCurrentClocksEventReasons",
            tuple(reasons),
            confirm=_LONG,
        )


def _nvlinks(gpu: GpuReading, expected: int | None) -> Iterator[Sign]:
    if gpu.nvlinks is not None and expected is not None and gpu.nvlinks < expected:
        yield _hardware(
            gpu.address,
            "nvlinks-inactive",
            Severity.DEGRADED,
            "NVLinks are inactive",
            "nvmlDeviceGetNvLinkState",
            (f"{gpu.nvlinks} of {expected} active",),
            confirm=60.0,
        )


def _rises(gpu: GpuReading, counters: Mapping[str, Counter]) -> Iterator[Sign]:
    for counter, limit, severity, text, call in (
        (
            "ecc_corrected",
            _CORRECTED_PER_HOUR,
            Severity.NOTE,
            "many corrected ECC errors",
            "nvmlDeviceGetTotalEccErrors",
        ),
        (
            "pcie_replays",
            _REPLAYS_PER_HOUR,
            Severity.NOTE,
            "many PCI Express replays",
            "nvmlDeviceGetPcieReplayCounter",
        ),
        (
            "nvlink_errors",
            _NVLINK_ERRORS_PER_HOUR,
            Severity.DEGRADED,
            "NVLink errors are increasing",
            "nvmlDeviceGetNvLinkErrorCounter",
        ),
    ):
        count = counters.get(counter_name(f"gpu {gpu.address}", counter))
        if count is not None and count.rise >= limit:
            rule = f"{counter.replace('_', '-')}-rising"
            yield _hardware(gpu.address, rule, severity, text, call, (f"{count.rise} within an hour",))


def _hardware(
    address: str,
    rule: str,
    severity: Severity,
    message: str,
    source: str,
    evidence: tuple[str, ...],
    *,
    confirm: float = 0.0,
    clearing: Clearing = Clearing.QUIET,
) -> Sign:
    return Sign(
        DeviceId(GPU, address),
        rule,
        Verdict.HARDWARE,
        severity,
        message,
        source,
        _NVML,
        evidence,
        READER,
        confirm=confirm,
        settle=60.0,
        clearing=clearing,
    )
