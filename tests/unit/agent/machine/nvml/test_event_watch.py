"""XIDs as NVML reports them, with simulated NVML."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.nvml_results import stub_twin
from zonewise.machine.nvml.backend import GPU_IS_LOST, NOT_SUPPORTED, UNKNOWN, NvmlError
from zonewise.machine.nvml.event_watch import NvmlXid, watch_xids

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_sandbox.nvml import SimulatedNvml

NONE = 0xFFFFFFFF


def watch_for(nvml: SimulatedNvml, waits: int = 6, pause: Callable[[float], object] | None = None) -> list[NvmlXid]:
    """Return the XIDs that are reported within this number of waits."""
    xids: list[NvmlXid] = []
    stops = iter([False] * waits)
    nvml.system["nvmlEventSetCreate"] = 1
    watch_xids(nvml, xids.append, lambda: next(stops, True), pause or (lambda _: pytest.fail("paused")))
    return xids


def test_xids_of_registered_gpus() -> None:
    nvml = stub_twin()
    nvml.gpus[1].results["nvmlDeviceRegisterEvents"] = None
    nvml.events = [
        ("00000000:3B:00.0", 8, 79, NONE, NONE), ("00010000:3B:00.0", 8, 31, 5, NONE), ("00000000:3B:00.0", 4, 0),
        ("?", 8, 1, NONE, NONE), ("00010000:3B:00.0", 8, 13, 5, 0),
    ]  # fmt: skip
    assert watch_for(nvml) == [
        NvmlXid("0000:3b:00.0", 79), NvmlXid("10000:3b:00.0", 31, "5"), NvmlXid("10000:3b:00.0", 13, "5/0")
    ]  # fmt: skip


def test_a_lost_gpu_neither_ends_the_watch_nor_causes_a_busy_loop() -> None:
    nvml, pauses = stub_twin(), list[float]()
    nvml.gpus[0].results["nvmlDeviceRegisterEvents"] = None
    nvml.events = [NvmlError(GPU_IS_LOST), NvmlError(GPU_IS_LOST), ("00000000:3B:00.0", 8, 79, NONE, NONE)]
    assert watch_for(nvml, 3, pauses.append) == [NvmlXid("0000:3b:00.0", 79)]
    assert pauses == [5.0, 5.0]
    nvml.events = [NvmlError(UNKNOWN)]
    with pytest.raises(NvmlError):
        watch_for(nvml)


def test_gpus_without_events_end_the_watch() -> None:
    nvml = stub_twin()
    nvml.events = [("00000000:3B:00.0", 8, 79, NONE, NONE)]
    assert watch_for(nvml) == []


def test_a_library_without_events_is_an_error() -> None:
    nvml = stub_twin()
    nvml.system["nvmlEventSetCreate"] = NvmlError(NOT_SUPPORTED)
    with pytest.raises(NvmlError):
        watch_xids(nvml, lambda _: None, lambda: True)
