"""The test double of NVML: results by name and arguments, errors, and lost GPUs."""

from __future__ import annotations

import pytest

from zonewise.machine.nvml.backend import GPU_IS_LOST, NOT_FOUND, NOT_SUPPORTED, NvmlError
from zonewise_sandbox.nvml import NvmlDevice, SimulatedNvml

MIG = NvmlDevice({"nvmlDeviceGetUUID": "MIG-1"})
GPU = NvmlDevice(
    {"nvmlDeviceGetUUID": "GPU-1", ("nvmlDeviceGetNvLinkState", 3): 1, "nvmlDeviceGetName": NvmlError(NOT_FOUND)},
    {0: MIG},
)


@pytest.fixture
def nvml() -> SimulatedNvml:
    return SimulatedNvml([GPU], {"nvmlSystemGetDriverVersion": "570"})


def test_results(nvml: SimulatedNvml) -> None:
    assert nvml.call("nvmlSystemGetDriverVersion") == "570"
    assert nvml.call("nvmlDeviceGetCount") == 1
    device = nvml.call("nvmlDeviceGetHandleByIndex", 0)
    assert nvml.call("nvmlDeviceGetUUID", device) == "GPU-1"
    assert nvml.call("nvmlDeviceGetNvLinkState", device, 3) == 1
    assert nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", device, 0) is MIG
    assert nvml.calls[-2:] == [("nvmlDeviceGetNvLinkState", "3"), ("nvmlDeviceGetMigDeviceHandleByIndex", "0")]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (("nvmlDeviceGetName", GPU), NOT_FOUND),
        (("nvmlDeviceGetSerial", GPU), NOT_SUPPORTED),
        (("nvmlDeviceGetNvLinkState", GPU, 4), NOT_SUPPORTED),
        (("nvmlDeviceGetMigDeviceHandleByIndex", GPU, 1), NOT_FOUND),
        (("nvmlSystemGetNVMLVersion",), NOT_SUPPORTED),
    ],
)
def test_errors(nvml: SimulatedNvml, call: tuple[str, object], code: int) -> None:
    with pytest.raises(NvmlError) as error:
        nvml.call(*call)
    assert str(error.value) == str(NvmlError(code))


def test_a_lost_gpu(nvml: SimulatedNvml) -> None:
    nvml.lost.add(0)
    device = nvml.call("nvmlDeviceGetHandleByIndex", 0)
    with pytest.raises(NvmlError) as error:
        nvml.call("nvmlDeviceGetUUID", device)
    assert str(error.value) == str(NvmlError(GPU_IS_LOST))


def test_a_library_that_does_not_start() -> None:
    with pytest.raises(NvmlError):
        SimulatedNvml([], {}, NvmlError(NOT_SUPPORTED)).start()
