"""The error counts of AMD GPUs that the driver shows, also while a GPU sleeps or is reset."""

from __future__ import annotations

from support.gpus import amd_tree
from zonewise.health.readers.amd_gpus import read_ras
from zonewise.health.types import RasReading
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.gpu import Gpu
from zonewise.machine.model.machine import Machine
from zonewise.machine.reader import Reader

ADDRESS = "0000:63:00.0"
GPU = Gpu(ADDRESS, None, "amd", None, None, None, "amdgpu", None, None, None)


def read(attributes: dict[str, object], gpu: Gpu = GPU) -> dict[str, RasReading]:
    return read_ras(Reader(MemoryFiles(amd_tree(ADDRESS, **attributes).items())), Machine(gpus=(gpu,)))


def test_counts_by_block() -> None:
    """Other files of the directory, such as the list of supported blocks, contain no counts."""
    attributes: dict[str, object] = {
        "ras/gfx_err_count": "ue: 2\nce: 0",
        "ras/aca_xgmi": "ue: 0\nce: 4\nde: 9",
        "ras/features": "ue: 8",
    }
    assert read(attributes) == {ADDRESS: RasReading({"umc": 7, "gfx": 0, "xgmi": 4}, {"umc": 1, "gfx": 2, "xgmi": 0})}


def test_counts_that_cannot_be_read_are_unknown() -> None:
    assert read({"ras/umc_err_count": "Query currently inaccessible"}) == {}
    assert read({"ras/umc_err_count": "ue: 1"}) == {ADDRESS: RasReading({}, {"umc": 1})}
    assert read({"ras/umc_err_count": None}) == {}
    assert read({"power/runtime_status": "suspended"}) == {}
    assert read({"power/runtime_status": "active"}) != {}


def test_a_gpu_of_another_driver_has_no_counts() -> None:
    """In a virtual machine host, vfio-pci drives it."""
    assert read({}, GPU._replace(driver="vfio-pci")) == {}
