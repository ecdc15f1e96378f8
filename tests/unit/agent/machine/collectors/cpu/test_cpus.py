"""Which CPUs exist: lists, directories, contradictions between them, and damage to either."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cpu_trees import CPU, bare_tree, cpuinfo, cpuset, found, healthy, line, paths, scan
from support.damage import DELETE, Damage
from zonewise.machine.collectors.cpu.cpus import COLLECTOR
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.cpu import Cpus
from zonewise_common.k8s.cpuset import EMPTY

if TYPE_CHECKING:
    from support.trees import Contents

ONLY = (COLLECTOR,)


def old_tree(online: dict[int, str | None]) -> Contents:
    """Return the tree of a kernel without lists; `online` has the content of each CPU's file, None for no file."""
    tree: Contents = {
        "proc/cpuinfo": cpuinfo({"model name": "P"}, [cpu for cpu, state in online.items() if state != "0"])
    }
    for cpu, state in online.items():
        tree[f"{CPU}/cpu{cpu}/crash_notes"] = line(0)
        if state is not None:
            tree[f"{CPU}/cpu{cpu}/online"] = line(state)
        if state != "0":
            tree[f"{CPU}/cpu{cpu}/topology/core_id"] = line(cpu)
    return tree


def with_offline(tree: Contents, cpus: str) -> Contents:
    """Add CPUs that are present but offline to a tree."""
    off = cpuset(cpus)
    present = cpuset(tree[f"{CPU}/present"].decode().strip()) | off  # type: ignore[union-attr]
    more = {f"{CPU}/cpu{cpu}/online": line(0) for cpu in off}
    return {**tree, **more, f"{CPU}/present": line(present), f"{CPU}/possible": line(present)}


def test_lists() -> None:
    """The kernel's lists are read, including sparse ids; an absent list is None."""
    assert healthy(bare_tree("0-3,88-91", possible="0-175"), ONLY).cpus == Cpus(
        cpuset("0-3,88-91"), EMPTY, cpuset("0-175"), None, None, cpuset("0-3,88-91")
    )


def test_offline_cpus_exist() -> None:
    """CPUs with a directory that are not online are offline; possible CPUs without a directory are not."""
    tree = with_offline(bare_tree("0-1,4"), "2-3") | {f"{CPU}/offline": b"2-3,5-511\n", f"{CPU}/possible": b"0-511\n"}
    cpus = healthy(tree, ONLY).cpus
    assert (str(cpus.online), str(cpus.offline)) == ("0-1,4", "2-3")
    assert cpus.known() == cpuset("0-511")


def test_directories_of_cpus_that_are_not_present() -> None:
    """POWER also registers possible CPUs. One that is not present does not exist yet, so it is not offline."""
    tree = bare_tree("0-1") | {f"{CPU}/cpu7/online": line(0)}
    assert healthy(tree, ONLY).cpus.offline == EMPTY


def test_isolated_and_without_tick() -> None:
    """The lists are those of isolcpus= and nohz_full=."""
    tree = bare_tree("0-7") | {f"{CPU}/isolated": b"4-7\n", f"{CPU}/nohz_full": b"5-7\n"}
    cpus = healthy(tree, ONLY).cpus
    assert (str(cpus.isolated), str(cpus.nohz_full)) == ("4-7", "5-7")


@pytest.mark.parametrize(("content", "expected"), [(b"\n", EMPTY), (b"        (null)\n", None)])
def test_nohz_full_of_older_kernels(content: bytes, expected: object) -> None:
    """Kernels print "(null)" if the option is compiled in but not used."""
    tree = bare_tree("0-7") | {f"{CPU}/isolated": b"\n", f"{CPU}/nohz_full": content}
    assert healthy(tree, ONLY).cpus.nohz_full == expected


def test_a_kernel_without_full_dynticks() -> None:
    """Without CONFIG_NO_HZ_FULL, a kernel has no such CPUs; one too old for the list of isolated CPUs may have some."""
    assert healthy(bare_tree("0") | {f"{CPU}/isolated": b"\n"}, ONLY).cpus.nohz_full == EMPTY
    assert healthy(bare_tree("0"), ONLY).cpus.nohz_full is None


def test_the_cgroup_restricts_nothing() -> None:
    """The CPUs that the reading process may use are a separate fact; the machine has all its CPUs."""
    cpus = healthy(bare_tree("0-7") | {"proc/self/status": b"Cpus_allowed_list:\t2-3\n"}, ONLY).cpus
    assert (str(cpus.online), str(cpus.allowed)) == ("0-7", "2-3")


def test_old_kernels() -> None:
    """Without lists, the CPUs with a directory are online, except those with 0 in `online`."""
    machine = healthy(old_tree({0: None, 1: "1", 2: "0", 3: None}), ONLY)
    assert (str(machine.cpus.online), str(machine.cpus.offline)) == ("0-1,3", "2")
    assert machine.cpus.possible is None


def test_old_kernels_without_topology() -> None:
    """If no CPU has a topology, its absence does not mean that a CPU is offline."""
    tree: Contents = {f"{CPU}/cpu{cpu}/crash_notes": line(0) for cpu in range(4)}
    assert healthy(tree | {"proc/cpuinfo": cpuinfo({}, range(4))}, ONLY).cpus.online == cpuset("0-3")


@pytest.mark.parametrize("content", [b"", b"(null)\n", b"7\n", b"\xff\n"])
def test_old_kernels_damaged(content: bytes) -> None:
    """A CPU with neither 0 nor 1 is online if it has a topology, which offline CPUs do not have."""
    tree = old_tree({0: None, 1: "1", 2: "0"})
    damages = {f"{CPU}/cpu{cpu}/online": Damage("content", 0, content) for cpu in (1, 2)}
    machine = found(tree, ONLY, damages)
    assert (str(machine.cpus.online), str(machine.cpus.offline)) == ("0-1", "2")
    assert paths(machine.problems) == list(damages)


def test_old_kernels_and_a_cpu_without_state() -> None:
    """A CPU with neither a state nor a topology, unlike all others, does not count as online; this is reported."""
    tree = {path: content for path, content in old_tree({0: None, 1: None}).items() if "cpu1/topology" not in path}
    machine = found(tree, ONLY)
    assert (str(machine.cpus.online), str(machine.cpus.offline)) == ("0", "1")
    assert paths(machine.problems) == [f"{CPU}/cpu1/online"]


def test_lists_without_directories() -> None:
    """Lists suffice; the absence of every directory is reported."""
    tree = {path: content for path, content in bare_tree("0-3").items() if "/cpu/cpu" not in path}
    machine = found(tree, ONLY)
    assert machine.cpus.online == cpuset("0-3")
    assert paths(machine.problems) == [CPU]


def test_only_cpuinfo() -> None:
    """Without sysfs, only the processors of /proc/cpuinfo are known."""
    machine = found({"proc/cpuinfo": cpuinfo({"model name": "P"}, [0, 2])}, ONLY)
    assert machine.cpus == Cpus(cpuset("0,2"), EMPTY, allowed=cpuset("0,2"))
    assert machine.model.name == "P"


def test_no_cpus_at_all() -> None:
    """A tree without any CPU gives no data, and this is reported."""
    scan_result = scan({"sys/class/net": None}, ONLY)
    assert scan_result.runs[0].outcome == "no data"
    assert CPU in paths(scan_result.machine.problems)
    assert scan_result.machine.cpus == Cpus(EMPTY, EMPTY)


def test_a_list_with_cpus_that_do_not_exist() -> None:
    """A list that has grown by damage invents no CPU: CPUs without a directory that are not present are omitted."""
    tree = bare_tree("0-3") | {f"{CPU}/online": b"0-355\n"}
    machine = found(tree, ONLY)
    assert machine.cpus.online == cpuset("0-3")
    assert [(problem.path, problem.used) for problem in machine.problems if "do not exist" in problem.problem] == [
        (f"/{CPU}/online", "the CPUs with a directory")
    ]


def test_a_cpu_that_lost_its_directory() -> None:
    """A CPU that is listed as online and present exists although its directory is missing; this is a problem."""
    tree = {path: content for path, content in bare_tree("0-3").items() if "/cpu2/" not in path}
    machine = found(tree, ONLY)
    assert machine.cpus.online == cpuset("0-3")
    assert machine.problems[0].problem == "lists CPUs 2, which have no directory"


def test_a_list_that_omits_cpus() -> None:
    """CPUs with 1 in `online` are online, whatever the list contains."""
    tree = bare_tree("0-3") | {f"{CPU}/online": b"0-1\n"} | {f"{CPU}/cpu{cpu}/online": b"1\n" for cpu in (1, 2, 3)}
    machine = found(tree, ONLY)
    assert machine.cpus.online == cpuset("0-3")
    assert [problem.problem for problem in machine.problems] == [
        "omits CPUs 2-3, whose own files say that they are online"
    ]


@pytest.mark.parametrize("content", [b"", b"0-\n", b"0-3", b"\xff\n", b"0-99999999999\n", b"3-0\n"])
def test_a_damaged_list(content: bytes) -> None:
    """If a list cannot be parsed or is cut off, the directories decide, and the problem names the list."""
    tree = with_offline(bare_tree("0-15"), "16-17")
    machine = found(tree, ONLY, {f"{CPU}/online": Damage("content", 0, content)})
    assert (str(machine.cpus.online), str(machine.cpus.offline)) == ("0-15", "16-17")
    assert "directories" in (machine.problems[0].used or "")


def test_losses_of_newer_kernels_are_reported() -> None:
    """A kernel that has `online` has `possible`; one that has `hotplug` has `isolated`."""
    tree = bare_tree("0-3") | {f"{CPU}/isolated": b"\n", f"{CPU}/hotplug": None}
    healthy(tree, ONLY)
    for name in ("possible", "isolated"):
        machine = found(tree, ONLY, {f"{CPU}/{name}": Damage(DELETE)})
        assert getattr(machine.cpus, name) is None
        assert paths(machine.problems) == [f"{CPU}/{name}"]


def test_ids_that_no_kernel_has() -> None:
    """Directories such as cpufreq, cpuidle or a garbled cpu99999999 are not CPUs."""
    names = ("cpufreq", "cpuidle", "cpu99999999", "cpu-1", "cpu1x", "cpu٣")
    tree = bare_tree("0-1") | {f"{CPU}/{name}/x": b"" for name in names}
    assert healthy(tree, ONLY).cpus.offline == EMPTY


def test_cpuinfo_that_omits_cpus() -> None:
    """A container may see only a part of /proc/cpuinfo; no model is invented for the others."""
    machine = found(bare_tree("0-3") | {"proc/cpuinfo": cpuinfo({"model name": "P"}, [0, 1])}, ONLY)
    assert machine.model.variants[0].cpus == cpuset("0-1")
    assert machine.problems[0].problem == "does not describe CPUs 2-3"


def test_byte_order() -> None:
    """The kernel prints it since 6.2; before, the architecture determines it. It is None if both are unknown."""
    for content, expected in ((b"little\n", "little"), (b"big\n", "big")):
        assert healthy(bare_tree("0") | {"sys/kernel/cpu_byteorder": content}, ONLY).byte_order == expected
    assert healthy(bare_tree("0"), ONLY).byte_order is None
    machine = found(bare_tree("0") | {"sys/kernel/cpu_byteorder": b"middle\n"}, ONLY)
    assert machine.byte_order is None
    assert paths(machine.problems) == ["sys/kernel/cpu_byteorder"]


@pytest.mark.parametrize(
    ("change", "again"),
    [
        ({}, "unchanged"),
        ({f"{CPU}/online": b"0-2\n", f"{CPU}/cpu3/online": b"0\n"}, "collected"),
        ({f"{CPU}/isolated": b"3\n"}, "collected"),
        ({"proc/self/status": b"VmRSS:\t9\nCpus_allowed_list:\t0-3\n"}, "unchanged"),
        ({"proc/self/status": b"VmRSS:\t1\nCpus_allowed_list:\t0-1\n"}, "collected"),
        ({"proc/meminfo": b"MemFree: 1\n"}, "unchanged"),
    ],
)
def test_what_causes_a_rescan(change: Contents, again: str) -> None:
    """CPUs that appear or disappear and a new cpuset cause a rescan; counters that always change do not."""
    tree = bare_tree("0-3") | {"proc/self/status": b"VmRSS:\t1\nCpus_allowed_list:\t0-3\n", f"{CPU}/isolated": b"\n"}
    files = MemoryFiles(tree.items())
    scanner = Scanner(files, collectors=ONLY)
    scanner.scan()
    for path, content in change.items():
        files._add(path, content or b"")  # pyright: ignore[reportPrivateUsage]
    assert scanner.scan().runs[0].outcome == again


def test_a_rescan_of_an_old_kernel() -> None:
    """Without lists, each CPU's own file is checked."""
    files = MemoryFiles(old_tree({0: None, 1: "1"}).items())
    scanner = Scanner(files, collectors=ONLY)
    assert scanner.scan().machine.cpus.online == cpuset("0-1")
    files._add(f"{CPU}/cpu1/online", b"0\n")  # pyright: ignore[reportPrivateUsage]
    assert scanner.scan().machine.cpus.online == cpuset("0")


def test_sources() -> None:
    """Every fact of the CPUs names its file."""
    sources = scan(bare_tree("0-3") | {f"{CPU}/isolated": b"\n"}, ONLY, explain=True).sources
    assert sources["cpus.online"].file == f"/{CPU}/online"
    assert sources["cpus.online"].value == "0-3"
    assert set(sources) >= {f"cpus.{name}" for name in ("offline", "possible", "isolated", "nohz_full", "allowed")}
    assert sources["model"].file == "/proc/cpuinfo"


@given(st.binary(max_size=30), st.binary(max_size=30), st.binary(max_size=30))
def test_no_noise_invents_a_cpu(online: bytes, present: bytes, possible: bytes) -> None:
    """Whatever the lists contain, only CPUs with a directory or in two lists are online."""
    noise = {"online": online, "present": present, "possible": possible}
    tree = bare_tree("0-3") | {f"{CPU}/{name}": content for name, content in noise.items()}
    machine = found(tree, ONLY)
    assert machine.cpus.online - cpuset("0-3") == EMPTY or online == present
    assert machine.cpus.online.isdisjoint(machine.cpus.offline)
