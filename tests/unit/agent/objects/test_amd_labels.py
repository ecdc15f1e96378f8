"""The labels of AMD's node labeller."""

from __future__ import annotations

import pytest

from support.machine_parts import GIB, Slot, function
from zonewise.machine.model.gpu import Gpu, Partition
from zonewise.machine.model.machine import Machine
from zonewise.objects.amd_labels import amd_labels

MI300X = Gpu(
    "0000:05:00.0", "GPU-1", "amd", "AMD Instinct MI300X (OAM)", 192 * GIB, 0, "amdgpu", None, None, None,
    driver_version="6.10.5", compute_capability="gfx942", partition="spx_nps1", compute_units=304, simds=1216,
)  # fmt: skip


def machine(*gpus: Gpu) -> Machine:
    slot = Slot("pci0000:00", (), 0)
    return Machine(gpus=gpus, pci=(function("0000:05:00.0", "1200", ("1002", "74a1"), slot),))


def test_common_values() -> None:
    """A common value is the label's value."""
    assert amd_labels(machine(MI300X, MI300X)) == {
        "amd.com/gpu.compute-memory-partition": "spx_nps1",
        "amd.com/gpu.cu-count": "304",
        "amd.com/gpu.device-id": "74a1",
        "amd.com/gpu.driver-version": "6.10.5",
        "amd.com/gpu.family": "AI",
        "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
        "amd.com/gpu.simd-count": "1216",
        "amd.com/gpu.vram": "192G",
    }


def test_different_values_are_counted() -> None:
    """Different values are in the labels' names, with the number of GPUs that have each."""
    labels = amd_labels(machine(MI300X, MI300X, MI300X._replace(memory=64 * GIB)))
    assert {name: value for name, value in labels.items() if "vram" in name} == {
        "amd.com/gpu.vram.192G": "2",
        "amd.com/gpu.vram.64G": "1",
    }


def test_partitions_are_gpus() -> None:
    """A partitioned GPU is described by one of its partitions."""
    parts = tuple(Partition(number, 128 + number, 24 * GIB, 38, 152) for number in range(8))
    labels = amd_labels(machine(MI300X._replace(partition="cpx_nps1", partitions=parts)))
    assert (labels["amd.com/gpu.vram"], labels["amd.com/gpu.cu-count"], labels["amd.com/gpu.simd-count"]) == (
        "24G",
        "38",
        "152",
    )


@pytest.mark.parametrize(
    ("target", "family"),
    [("gfx90a", "AI"), ("gfx90c", "RV"), ("gfx1030", "NV"), ("gfx1101", "GC_11_0_0"), ("gfx1103", "GC_11_0_1"),
     ("gfx1201", None), (None, None)],
)  # fmt: skip
def test_families(target: str | None, family: str | None) -> None:
    """The driver's family follows from the instruction set; one that the labeller does not know has no family."""
    assert amd_labels(machine(MI300X._replace(compute_capability=target))).get("amd.com/gpu.family") == family


def test_another_driver() -> None:
    """A GPU of a virtual machine cannot be allocated on the node."""
    assert amd_labels(machine(MI300X._replace(driver="vfio-pci"))) == {}
    assert amd_labels(Machine()) == {}
