"""A machine described in a few lines: one tree of files that both a kubelet and the project's discovery read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from support.disk import lay_out
from support.trees import GIB, SYSTEM, Contents, Shape, line, machine_tree
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
PAGES = {"hugepages-2Mi": 2 * MIB, "hugepages-1Gi": GIB}
"""Bytes of a page, by the resource name in Kubernetes."""

MOUNTED = (
    "sys/devices/system/node",
    "sys/devices/system/cpu",
    "sys/kernel/mm/hugepages",
    "proc/cpuinfo",
    "proc/meminfo",
)
"""Paths mounted over the real machine for a kubelet: all that cadvisor reads about CPUs and memory
(utils/sysfs/sysfs.go, machine/machine.go)."""

TUNABLES = {
    "proc/sys/vm/overcommit_memory": 1,
    "proc/sys/vm/panic_on_oom": 0,
    "proc/sys/kernel/panic": 10,
    "proc/sys/kernel/panic_on_oops": 1,
    "proc/sys/kernel/keys/root_maxkeys": 1000000,
    "proc/sys/kernel/keys/root_maxbytes": 25000000,
}
"""Kernel settings that a kubelet would otherwise change on the machine that runs the tests
(pkg/kubelet/cm/container_manager_linux.go setupKernelTunables)."""

_NODE = re.compile(r"(?<=/)node(\d+)(?=/|$)")


class Hardware(NamedTuple):
    """A machine; its zones are in the order of their ids, and the values of each zone are in the same order."""

    shape: Shape = Shape(packages=2, zones=1, cores=8, threads=2, l3_cores=8)
    """CPU n*8+c+16*t is thread t of core c of zone n."""
    ids: tuple[int, ...] = (0, 1)
    memory: tuple[int, ...] = (256 * GIB, 256 * GIB)
    """Bytes, more than a machine that runs tests has in use. The kubelet subtracts the memory that is really in use
    from their sum, and would evict pods if little remained."""
    hugepages: tuple[dict[str, int], ...] = ({"hugepages-2Mi": 512}, {"hugepages-1Gi": 2})
    """Number of pages by resource name."""
    distances: tuple[str, ...] = ("10 21", "21 10")
    """One row for each zone."""

    def cpus(self, zone: int) -> CpuSet:
        """Return the online CPUs of a zone by its id."""
        return self.shape.of_zone(self.ids.index(zone))


def hardware_tree(hardware: Hardware) -> Contents:
    """Return all files of a machine."""
    tree = {path: text for path, text in machine_tree(hardware.shape).items() if "/hugepages/" not in path}
    ids = line(CpuSet(hardware.ids))
    tree |= {f"{SYSTEM}/node/{name}": ids for name in ("online", "possible", "has_memory", "has_cpu")}
    total = sum(hardware.memory) // 1024
    tree["proc/meminfo"] = f"MemTotal: {total} kB\nMemFree: {total} kB\nSwapTotal: 0 kB\n".encode()
    for index, memory in enumerate(hardware.memory):
        place = f"{SYSTEM}/node/node{index}"
        tree[f"{place}/meminfo"] = f"Node {hardware.ids[index]} MemTotal:  {memory // 1024} kB\n".encode()
        tree[f"{place}/distance"] = line(hardware.distances[index])
    for name, size in PAGES.items():
        file = f"hugepages/hugepages-{size // 1024}kB/nr_hugepages"
        counts = [pages.get(name, 0) for pages in hardware.hugepages]
        tree |= {f"{SYSTEM}/node/node{index}/{file}": line(count) for index, count in enumerate(counts)}
        tree[f"sys/kernel/mm/{file}"] = line(sum(counts))
    renamed = {_with_ids(path, hardware): text for path, text in tree.items()}
    return {path: _with_ids(text, hardware) if isinstance(text, str) else text for path, text in renamed.items()}


def lay_out_hardware(hardware: Hardware, root: Path) -> Path:
    """Write a machine's files below a directory, with the kernel settings that a kubelet requires."""
    return lay_out(hardware_tree(hardware) | {path: line(value) for path, value in TUNABLES.items()}, root)


def _with_ids(path: str, hardware: Hardware) -> str:
    return _NODE.sub(lambda match: f"node{hardware.ids[int(match[1])]}", path)
