"""Facts that only s390 machines have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.cpu_trees import CPU, paths, reader
from zonewise.machine.collectors.cpu.cpuinfo import parse_cpuinfo
from zonewise.machine.collectors.cpu.mainframe import read_mainframe
from zonewise.machine.model.cpu import Mainframe, SharedCache

if TYPE_CHECKING:
    from support.trees import Contents

INFO = parse_cpuinfo(
    "vendor_id       : IBM/S390\n"
    "cache4          : level=3 type=Unified scope=Shared size=64M line_size=256 associativity=16\n"
    "processor 0: version = 00,  identification = 4729E7,  machine = 2964\n"
)
SYSINFO = (
    b"Manufacturer:         IBM             \nType:                 2964\nModel:                703         N96\n\n"
    b"CPU Topology HW:      0 0 9 9 9 9\nCPU Topology SW:      0 0 4 2 3 8   \nCPUs Total:           96\n"
)
TREE: Contents = {"proc/sysinfo": SYSINFO, f"{CPU}/dispatching": b"1\n"}
SHARED = (SharedCache(3, "Unified", 64 << 20),)


def test_a_whole_machine() -> None:
    """Machine type, dispatching, the software's numbers of containers, and caches without known sharers are read."""
    read = reader(TREE)
    assert read_mainframe(read, INFO) == Mainframe("2964", "vertical", 4, 2, 3, 8, SHARED)
    assert read.problems == []
    assert read.sources is not None
    assert set(read.sources) >= {
        "mainframe",
        "mainframe.dispatching",
        "mainframe.drawers",
        "mainframe.cores_per_socket",
    }


def test_another_architecture() -> None:
    """Other machines are not mainframes, and no file is missing."""
    read = reader({"proc/uptime": b""})
    assert read_mainframe(read, parse_cpuinfo("processor\t: 0\n")) is None
    assert read.problems == []


def test_without_topology() -> None:
    """A KVM guest does not see containers; they are unknown, without a problem."""
    read = reader(TREE | {"proc/sysinfo": b"Manufacturer:         IBM\nType:                 2964\n"})
    assert read_mainframe(read, INFO) == Mainframe("2964", "vertical", shared_caches=SHARED)
    assert read.problems == []


def test_losses_are_reported() -> None:
    """Every such machine has these files. Their absence or noise in them is a problem, and no number is invented."""
    for content in (None, b"-1\n", b"\xff\xfe\n"):
        tree: Contents = {"proc/uptime": b""}
        tree |= dict.fromkeys(TREE, content)
        read = reader(tree)
        assert read_mainframe(read, INFO) == Mainframe("2964", shared_caches=SHARED)
        assert set(paths(read.problems)) == set(TREE)


def test_an_invalid_mode() -> None:
    """Dispatching is 0 or 1."""
    read = reader(TREE | {f"{CPU}/dispatching": b"2\n"})
    mainframe = read_mainframe(read, INFO)
    assert mainframe is not None
    assert mainframe.dispatching is None
    assert paths(read.problems) == [f"{CPU}/dispatching"]
