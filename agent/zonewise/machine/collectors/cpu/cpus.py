"""The CPUs by state, and the model of the processor.

A CPU is online if the kernel lists it (drivers/base/cpu.c). The oldest kernels have no such list: on these a CPU is
online if it has a directory whose file `online` is not 0. The CPUs that the reading process's cgroup permits are a
separate fact and restrict nothing else. The agent runs in a pod but reports the whole machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.collector import Collector, NoData
from zonewise.machine.collectors.cpu.cgroup import STATUS, allowed_cpus, cpus_allowed_line
from zonewise.machine.collectors.cpu.cpuid_device import read_cpuid
from zonewise.machine.collectors.cpu.cpuinfo import PATH, CpuInfo, cpu_model, read_cpuinfo
from zonewise.machine.collectors.cpu.mainframe import read_mainframe
from zonewise.machine.collectors.cpu.sharing import CPU, shown
from zonewise.machine.model.cpu import Cpus
from zonewise_common.k8s.cpuset import EMPTY, MAX_CPUS, CpuSet

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.cpu import Model
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

_ONLINE = f"{CPU}/online"
_PRESENT = f"{CPU}/present"
_POSSIBLE = "which CPUs could be added"
_ISOLATED = "which CPUs are isolated"
_SINCE_4_2 = frozenset({"nohz_full", "hotplug", "smt", "vulnerabilities"})
"""Files of kernels that list isolated CPUs: that list and nohz_full came with 4.2, the others later."""

_BESIDE_POSSIBLE = frozenset({"online", "present", "kernel_max", "offline"})
"""Files that came with or after the list of possible CPUs (kernel 2.6.25, drivers/base/cpu.c)."""
_BYTE_ORDERS = ("little", "big")
_LITTLE = ("x86_64", "i386", "i486", "i586", "i686", "aarch64", "riscv64", "loongarch64", "ppc64le", "ia64")
_BIG = ("s390x", "s390", "ppc64", "ppc", "sparc64", "sparc", "parisc")


def _collect(read: Reader, machine: Machine) -> Machine:
    info = read_cpuinfo(read)
    names = frozenset(read.names(CPU))
    directories = _directories(names)
    present = read.cpus(_PRESENT)
    online = _online(read, directories, present, info)
    offline = (directories if present is None else directories & present) - online
    read.source("cpus.offline", CPU, offline, "directories of CPUs that are not online")
    cpus = Cpus(
        online,
        offline,
        read.cpus(f"{CPU}/possible", fact="cpus.possible", needed=_POSSIBLE if names & _BESIDE_POSSIBLE else ""),
        read.cpus(f"{CPU}/isolated", fact="cpus.isolated", needed=_ISOLATED if names & _SINCE_4_2 else ""),
        _nohz_full(read, names),
        allowed_cpus(read, online),
    )
    return machine._replace(
        cpus=cpus,
        model=_model(read, info, online),
        byte_order=_byte_order(read, machine.architecture),
        mainframe=read_mainframe(read, info),
    )


def _nohz_full(read: Reader, names: frozenset[str]) -> CpuSet | None:
    """Return the CPUs without a tick: none if the kernel lists isolated CPUs but was built without nohz_full."""
    if "isolated" in names and "nohz_full" not in names:
        read.source("cpus.nohz_full", f"{CPU}/nohz_full", None, "the kernel is built without CONFIG_NO_HZ_FULL")
        return EMPTY
    return read.cpus(f"{CPU}/nohz_full", fact="cpus.nohz_full")


def _directories(names: Iterable[str]) -> CpuSet:
    digits = (name[3:] for name in names if name.startswith("cpu"))
    ids = (int(text) for text in digits if text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_CPUS)))
    return CpuSet(cpu for cpu in ids if cpu < MAX_CPUS)


def _online(read: Reader, directories: CpuSet, present: CpuSet | None, info: CpuInfo) -> CpuSet:
    before = len(read.problems)
    listed = read.cpus(_ONLINE, fact="cpus.online")
    if not listed:
        online = _online_by_directory(read, directories) if directories else CpuSet(info.own)
        if not online:
            read.problem(CPU, "lists no CPUs", "nothing is known about CPUs")
            raise NoData(f"no CPUs: neither /{CPU} nor /{PATH} lists any")
        path, rule = (CPU, "directories whose file online is not 0") if directories else (PATH, "its processors")
        read.source("cpus.online", path, online, rule)
        for number in range(before, len(read.problems)):
            read.problems[number] = read.problems[number]._replace(used=f"CPUs {shown(online)}: {rule} (/{path})")
        return online
    if not directories:
        read.problem(CPU, "has no directory of a CPU", f"CPUs {shown(listed)}, as listed")
        return listed
    return _confirmed(read, listed, directories, present) | _unlisted(read, directories - listed)


def _online_by_directory(read: Reader, directories: CpuSet) -> CpuSet:
    """Return the CPUs whose file has 1, and CPUs without that file that have a topology, as online CPUs do.

    If no CPU has a topology, the topology is not required.
    """
    with_topology = CpuSet(cpu for cpu in directories if read.names(f"{CPU}/cpu{cpu}/topology")) or directories
    online: list[int] = []
    for cpu in directories:
        before = len(read.problems)
        path = f"{CPU}/cpu{cpu}/online"
        state = _online_state(read, path)
        if state is None and cpu not in with_topology and len(read.problems) == before:
            read.problem(path, "is missing, and so is the CPU's topology")
        read.note_used(before, f"{'online: it has' if cpu in with_topology else 'offline: it has no'} topology")
        if state or (state is None and cpu in with_topology):
            online.append(cpu)
    return CpuSet(online)


def _online_state(read: Reader, path: str) -> bool | None:
    """Return the state in a file with 0 or 1; None if the file is absent. Any other content is a problem and yields
    None.
    """
    content = read.raw(path)
    text = None if content is None else content.strip(b"\0\n ")
    if text in (None, b"0", b"1"):
        return None if text is None else text == b"1"
    read.problem(path, f"is neither 0 nor 1: {text[:20]!r}")
    return None


def _confirmed(read: Reader, listed: CpuSet, directories: CpuSet, present: CpuSet | None) -> CpuSet:
    """Return the listed CPUs that exist: each has a directory or is listed as present as well."""
    homeless = listed - directories
    if not homeless:
        return listed
    known = homeless & present if present is not None else EMPTY
    if known:
        read.problem(
            _ONLINE, f"lists CPUs {shown(known)}, which have no directory", "the list, since cpu/present also has them"
        )
    if invented := homeless - known:
        read.problem(_ONLINE, f"lists CPUs {shown(invented)}, which do not exist", "the CPUs with a directory")
    return listed - invented


def _unlisted(read: Reader, candidates: CpuSet) -> CpuSet:
    """Return the CPUs that are online by their own file, although the list leaves them out."""
    unlisted = CpuSet(cpu for cpu in candidates if _online_state(read, f"{CPU}/cpu{cpu}/online"))
    if unlisted:
        read.problem(
            _ONLINE, f"omits CPUs {shown(unlisted)}, whose own files say that they are online", "the files of the CPUs"
        )
    return unlisted


def _model(read: Reader, info: CpuInfo, online: CpuSet) -> Model:
    missing = online - CpuSet(info.own)
    if info.own and missing:
        read.problem(PATH, f"does not describe CPUs {shown(missing)}", "the lines of the other CPUs")
    read.source("model", PATH, len(info.own), "the lines of the first CPU")
    model = cpu_model(info, online)
    return model._replace(leaves=read_cpuid(online.first())) if read.files.live and online else model


def _byte_order(read: Reader, architecture: str | None) -> str | None:
    path = "sys/kernel/cpu_byteorder"  # since Linux 6.2
    byte_order = read.text(path, fact="byte_order")
    if byte_order in _BYTE_ORDERS:
        return byte_order
    known = "little" if architecture in _LITTLE else "big" if architecture in _BIG else None
    if byte_order is not None:
        read.problem(path, f"contains {byte_order[:60]!r}", f"{known or 'unknown'}, from the architecture")
    read.source("byte_order", path, architecture, "from the architecture")
    return known


def _volatile(peek: Peek) -> Hashable:
    online = peek.content(_ONLINE)
    status = peek.content(STATUS)
    allowed = cpus_allowed_line(status.decode("latin-1")) if isinstance(status, bytes) else status
    states = () if isinstance(online, bytes) else _peek_online_states(peek)
    return online, states, peek.content(_PRESENT), peek.content(f"{CPU}/isolated"), allowed


def _peek_online_states(peek: Peek) -> tuple[Hashable, ...]:
    return tuple((cpu, peek.content(f"{CPU}/cpu{cpu}/online")) for cpu in _directories(peek.names(CPU)))


COLLECTOR = Collector(
    name="cpus",
    provides=("cpus", "model", "byte_order", "mainframe"),
    needs=("architecture",),
    collect=_collect,
    volatile=_volatile,
)
