"""Small trees of CPUs with the layout of sysfs, and the results of the CPU collectors on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.damage import Damaged, Recording
from zonewise.machine.collectors.cpu import caches, core_kinds, cpus, topology
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.reader import Reader
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from support.damage import Damage
    from support.trees import Contents
    from zonewise.machine.collector import Collector
    from zonewise.machine.discover import Scan
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.problem import Problem

CPU = "sys/devices/system/cpu"
ALL = (cpus.COLLECTOR, topology.COLLECTOR, caches.COLLECTOR, core_kinds.COLLECTOR)


def scan(
    tree: Contents,
    collectors: tuple[Collector, ...] = ALL,
    damages: Mapping[str, Damage] | None = None,
    *,
    explain: bool = False,
) -> Scan:
    """Scan a tree, with damaged files if given."""
    files = Damaged(MemoryFiles(tree.items()), damages or {})
    return Scanner(files, collectors=collectors, explain=explain).scan()


def found(
    tree: Contents, collectors: tuple[Collector, ...] = ALL, damages: Mapping[str, Damage] | None = None
) -> Machine:
    """Return the machine of a tree; fail if any collector failed."""
    made = scan(tree, collectors, damages)
    assert [run for run in made.runs if run.outcome == "failed"] == []
    return made.machine


def healthy(tree: Contents, collectors: tuple[Collector, ...] = ALL) -> Machine:
    """Return the machine of a tree; fail if it has any problem."""
    machine = found(tree, collectors)
    assert machine.problems == ()
    return machine


def reads(tree: Contents, collectors: tuple[Collector, ...] = ALL) -> list[str]:
    """Return the files that a scan reads, in order."""
    files = Recording(MemoryFiles(tree.items()))
    Scanner(files, collectors=collectors).scan()
    return files.reads


def reader(tree: Contents) -> Reader:
    """Return a reader of a tree that records sources."""
    return Reader(MemoryFiles(tree.items()), explain=True)


def paths(problems: Iterable[Problem]) -> list[str]:
    """Return the paths of problems without the leading slash."""
    return [problem.path[1:] for problem in problems]


def line(value: object) -> bytes:
    """Return a value as the kernel prints it."""
    return f"{value}\n".encode()


def cpuset(text: str) -> CpuSet:
    """Return the CPU set for a list notation."""
    return CpuSet.parse_list(text)


def mask(text: str) -> bytes:
    """Return the mask of a CPU list as a kernel for up to 32 CPUs prints it."""
    return f"{cpuset(text).bits:08x}\n".encode()


def bare_tree(online: str, *, possible: str | None = None) -> Contents:
    """Return a tree in which only the existence of the CPUs is known."""
    tree: Contents = {
        f"{CPU}/online": line(online),
        f"{CPU}/present": line(online),
        f"{CPU}/possible": line(possible or online),
    }
    tree |= {f"{CPU}/cpu{cpu}/crash_notes": line(0) for cpu in cpuset(online)}
    tree["proc/cpuinfo"] = cpuinfo({"model name": "Processor"}, cpuset(online))
    return tree


def cpuinfo(fields: Mapping[str, str], online: Iterable[int]) -> bytes:
    """Return a /proc/cpuinfo with the layout of x86 and the same lines for every CPU."""
    lines = "".join(f"{key}\t: {value}\n" for key, value in fields.items())
    return "".join(f"processor\t: {cpu}\n{lines}\n" for cpu in online).encode()


def topology_tree(cores: Mapping[str, int], packages: Mapping[str, int]) -> Contents:
    """Return CPUs in cores and packages, each given by CPU list and id. As on old kernels, only masks describe them."""
    online = CpuSet(cpu for core in cores for cpu in cpuset(core))
    tree = bare_tree(str(online))
    for stem, id_name, objects in (
        ("thread_siblings", "core_id", cores),
        ("core_siblings", "physical_package_id", packages),
    ):
        for text, number in objects.items():
            for cpu in cpuset(text):
                tree[f"{CPU}/cpu{cpu}/topology/{stem}"] = mask(text)
                tree[f"{CPU}/cpu{cpu}/topology/{id_name}"] = line(number)
    return tree


def add_level(tree: Contents, stem: str, id_name: str, objects: Mapping[str, int]) -> None:
    """Add a topology level of newer kernels: mask, list and id."""
    for text, number in objects.items():
        for cpu in cpuset(text):
            place = f"{CPU}/cpu{cpu}/topology"
            tree |= {
                f"{place}/{stem}": mask(text),
                f"{place}/{stem}_list": line(text),
                f"{place}/{id_name}": line(number),
            }


def add_cache(tree: Contents, index: int, level: int, kind: str, size: str | None, shared: Iterable[str]) -> None:
    """Add the caches of one index, each given by the CPUs that share it."""
    for text in shared:
        for cpu in cpuset(text):
            place = f"{CPU}/cpu{cpu}/cache/index{index}"
            tree |= {f"{place}/level": line(level), f"{place}/type": line(kind), f"{place}/shared_cpu_map": mask(text)}
            tree[f"{place}/shared_cpu_list"] = line(text)
            if size is not None:
                tree[f"{place}/size"] = line(size)
