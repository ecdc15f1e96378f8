"""Which resources are GPUs."""

from __future__ import annotations

import pytest

from zonewise_scheduler.quota.api.gpu_resource import is_gpu


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("nvidia.com/gpu", True), ("amd.com/gpu", True), ("nvidia.com/mig-1g.10gb", True),
        ("nvidia.com/gpu.shared", True), ("volcano.sh/vgpu-number", True), ("hygon.com/dcu", True),
        ("habana.ai/gaudi", True), ("vendor.com/npu", True),
        ("gpu.intel.com/i915", True), ("gpu.intel.com/xe", True), ("gpu.intel.com/tiles", False),
        ("volcano.sh/vgpu-memory", False), ("aliyun.com/gpu-mem", False), ("hygon.com/dcunum", True),
        ("rdma/hca", False), ("hugepages-2Mi", False), ("cpu", False), ("gpu", False),
        ("smarter-devices/input", False), ("vendor.com/input-device", False), ("nvidia.com/gpumem", False),
        ("vendor.com/migration", False),
    ],
)  # fmt: skip
def test_resources_of_gpus(name: str, is_one: bool) -> None:
    """Whole words after the domain count: "input" contains "npu" but is not a GPU."""
    assert is_gpu(name) is is_one
