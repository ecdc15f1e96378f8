"""GPUs in files and as PCI functions, for tests of discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.machines import Slot, function
from support.trees import Contents, line
from zonewise.machine.collectors.gpu.gpus import find_gpus
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.zone import Zone
from zonewise.machine.reader import Reader
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise.machine.model.pci import PciFunction
    from zonewise.machine.model.problem import Problem, Source
    from zonewise.machine.nvml.facts import NvmlFacts

DEVICES = "sys/bus/pci/devices"
GPUS = "proc/driver/nvidia/gpus"
VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Sat Jan 25 20:37:22 UTC 2025\nGCC version: 13\n"


class LiveFiles(MemoryFiles):
    """Files that claim to belong to the running machine."""

    live = True


def pci(address: str, vendor: str = "10de", pci_class: str = "0302", **more: Any) -> PciFunction:
    """Return a PCI function; by default a GPU in zone 0."""
    zone = more.pop("zone", 0)
    return function(address, pci_class, (vendor, more.pop("device", "2330")), Slot("pci0000:00", (), zone), **more)


def zones(*cpus: str) -> tuple[Zone, ...]:
    """Return zones with these CPUs; an empty list makes a zone without CPUs."""
    sets = [CpuSet.parse_list(text) if text else EMPTY for text in cpus]
    return tuple(
        Zone(number, held, held, 1 << 30, {}, {}, "cpu" if held else "device") for number, held in enumerate(sets)
    )


class GpuScan:
    """The result of `find_gpus` for a machine."""

    def __init__(
        self,
        functions: Iterable[PciFunction],
        tree: Contents | None = None,
        ask: Callable[[], NvmlFacts] | None = None,
        *,
        machine: Machine | None = None,
    ) -> None:
        """Find GPUs. With `ask`, a source of NVML facts, the files count as those of the running machine."""
        files = (LiveFiles if ask else MemoryFiles)((tree or {}).items())
        read = Reader(files, explain=True)
        base = machine or Machine(zones=zones("0-3", "4-7"))
        self.machine = find_gpus(read, base._replace(pci=tuple(functions)), ask or _never)
        self.gpus = self.machine.gpus
        self.problems: list[Problem] = read.problems
        self.sources: dict[str, Source] = read.sources or {}

    def said(self, words: str) -> list[Problem]:
        """Return the problems that contain these words."""
        return [problem for problem in self.problems if words in f"{problem.path} {problem.problem} {problem.used}"]


def _never() -> NvmlFacts:
    raise AssertionError("NVML was asked for")


def information(uuid: str = "GPU-1", minor: int = 0, **more: str) -> bytes:
    """Return /proc/driver/nvidia/gpus/ADDRESS/information."""
    told = {
        "Model": "Stub S1",
        "IRQ": "163",
        "GPU UUID": uuid,
        "Video BIOS": "96.00.30.00.01",
        "Bus Type": "PCIe",
        "Device Minor": str(minor),
        "GPU Firmware": "570.86.10",
        "GPU Excluded": "No",
        **{name.replace("_", " "): value for name, value in more.items()},
    }
    return "".join(f"{name}: \t {value}\n" for name, value in told.items()).encode()


def proc_tree(*addresses: str) -> Contents:
    """Return the /proc/driver/nvidia of some GPUs."""
    tree: Contents = {"proc/driver/nvidia/version": VERSION.encode()}
    for minor, address in enumerate(addresses):
        tree[f"{GPUS}/{address}/information"] = information(f"GPU-{minor}", minor)
    return tree


def amd_tree(address: str, **attributes: object) -> Contents:
    """Return the directory of an AMD GPU with the files of the amdgpu driver."""
    default = {
        "mem_info_vram_total": 206141652992,
        "mem_info_vram_used": 295616512,
        "product_name": "AMD Instinct MI300X OAM",
        "product_number": "102-G30211-00",
        "unique_id": "e3a8a1a2b3c4d5e6",
        "vbios_version": "113-M3000100-102",
        "pcie_replay_count": 2,
        "ras/umc_err_count": "ue: 1\nce: 7",
        "current_compute_partition": "SPX",
        "available_compute_partition": "SPX, DPX, QPX, CPX",
        "current_memory_partition": "NPS1",
    }
    tree: Contents = {f"{DEVICES}/{address}/drm/card1": None, f"{DEVICES}/{address}/drm/renderD128": None}
    for name, value in {**default, **attributes}.items():
        if value is not None:
            tree[f"{DEVICES}/{address}/{name}"] = line(value)
    return tree
