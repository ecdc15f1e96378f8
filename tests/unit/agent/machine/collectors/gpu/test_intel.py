"""Facts of Intel GPUs from i915 and xe."""

from __future__ import annotations

from typing import Any

import pytest

from support.gpus import DEVICES, GpuScan, pci
from support.trees import Contents, line

ADDRESS = "0000:4d:00.0"
PATH = f"{DEVICES}/{ADDRESS}"
DRM: Contents = {f"{PATH}/drm/card1": None, f"{PATH}/drm/renderD129": None}


def intel(driver: str | None, pci_class: str = "0380") -> list[Any]:
    return [pci(ADDRESS, "8086", pci_class, device="0bd5", driver=driver)]


def test_a_discrete_gpu_of_i915() -> None:
    """Memory, tiles (one GT each), device numbers, and the version of a driver that has one, are read."""
    tree: Contents = {
        **DRM,
        f"{PATH}/drm/card1/lmem_total_bytes": line(137438953472),
        f"{PATH}/drm/card1/gt/gt0/id": line(0),
        f"{PATH}/drm/card1/gt/gt1/id": line(1),
        "sys/module/i915/version": line("1.24.4"),
    }
    discovered = GpuScan(intel("i915"), tree)
    gpu = discovered.gpus[0]
    assert (gpu.memory, gpu.tiles, gpu.minor, gpu.number) == (128 << 30, 2, 129, 1)
    assert (gpu.driver_version, gpu.vendor) == ("1.24.4", "intel")
    assert discovered.problems == []
    assert discovered.sources[f"gpus.{ADDRESS}.memory"].file == f"/{PATH}/drm/card1/lmem_total_bytes"


def test_an_integrated_gpu_has_no_memory_of_its_own() -> None:
    """Its memory is unknown, not 0. A second GT for media is not a second tile."""
    tree: Contents = {**DRM, f"{PATH}/drm/card1/gt/gt0/id": line(0), f"{PATH}/drm/card1/gt/gt1/id": line(1)}
    discovered = GpuScan(intel("i915", "0300"), tree)
    assert (discovered.gpus[0].memory, discovered.gpus[0].tiles, discovered.problems) == (None, None, [])


def test_xe_lists_memory_by_tile() -> None:
    """The memory of a GPU is the sum of its tiles."""
    tree: Contents = {
        **DRM,
        **{f"{PATH}/tile{tile}/physical_vram_size_bytes": line(64 << 30) for tile in range(2)},
        f"{PATH}/tile0/gt0/id": line(0),
        f"{PATH}/tile0/gt1/id": line(1),
    }
    gpu = GpuScan(intel("xe"), tree).gpus[0]
    assert (gpu.memory, gpu.tiles, gpu.minor) == (128 << 30, 2, 129)


def test_a_tile_without_its_memory_makes_the_sum_unknown() -> None:
    """A part of the memory is not used as the total."""
    tree: Contents = {
        f"{PATH}/tile0/physical_vram_size_bytes": line(64 << 30),
        f"{PATH}/tile1/physical_vram_size_bytes": b"garbage\n",
    }
    discovered = GpuScan(intel("xe"), tree)
    assert (discovered.gpus[0].memory, discovered.gpus[0].tiles) == (None, 2)
    assert discovered.said("tile1/physical_vram_size_bytes")


@pytest.mark.parametrize("content", [b"-1\n", b"", b"9" * 50 + b"\n", b"\xff\n"])
def test_damage_is_reported(content: bytes) -> None:
    """An invalid size is a problem and gives no size."""
    discovered = GpuScan(intel("i915"), {**DRM, f"{PATH}/drm/card1/lmem_total_bytes": content})
    assert discovered.gpus[0].memory is None
    assert discovered.said("lmem_total_bytes")


def test_a_gpu_of_another_driver_has_only_pci_facts() -> None:
    """For a GPU that a virtual machine uses, none of these files is meaningful."""
    discovered = GpuScan(intel("vfio-pci"), {**DRM, f"{PATH}/drm/card1/lmem_total_bytes": line(1)})
    assert (discovered.gpus[0].memory, discovered.gpus[0].minor) == (None, None)


def test_old_kernels_have_few_facts() -> None:
    """A GPU without device numbers is still a GPU, without a problem."""
    discovered = GpuScan(intel("i915"))
    assert (discovered.gpus[0].driver, discovered.gpus[0].number, discovered.problems) == ("i915", None, [])
