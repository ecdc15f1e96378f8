"""Swap areas and non-volatile memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.damage import DAMAGES, Damage, Damaged
from support.trees import Contents, line
from zonewise.machine.collector import Peek
from zonewise.machine.collectors.memory import nvdimm, swap
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.host import Nvdimm

HEAD = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
AREAS = HEAD + b"/dev/dm-0 partition\t131068\t\t176\t\t-2\n/my\\040swap   file\t\t1024\t0\t-3\n"


def nvdimms() -> Contents:
    """Return a tree of a region with a namespace and its device DAX."""
    return {
        "sys/bus/nd/devices/region0/devtype": line("nd_pmem"),
        "sys/bus/nd/devices/namespace0.0/devtype": line("nd_namespace_pmem"),
        "sys/bus/nd/devices/namespace0.0/mode": line("dax"),
        "sys/bus/nd/devices/dax0.0/devtype": line("nd_dax"),
        "proc/swaps": AREAS,
    }


def scan(tree: Contents, damages: dict[str, Damage] | None = None) -> Scan:
    files = Damaged(MemoryFiles(tree.items()), damages or {})
    return Scanner(files, explain=True, collectors=(swap.COLLECTOR, nvdimm.COLLECTOR)).scan()


@pytest.mark.parametrize(("content", "size"), [(HEAD, 0), (AREAS, (131068 + 1024) << 10)])
def test_swap(content: bytes, size: int) -> None:
    """The size is the sum of all areas in bytes; 0 is a value."""
    discovered = scan({"proc/swaps": content})
    assert (discovered.machine.swap, discovered.machine.problems) == (size, ())
    assert discovered.sources["swap"].file == "/proc/swaps"


def test_a_kernel_without_swap() -> None:
    """Without the file, nothing is known, and nothing is reported."""
    assert scan({"proc": None}).machine.swap is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\n",
        HEAD + b"/dev/sda2 partition\n",
        HEAD + b"a b -1 0 0\n",
        AREAS[:-1],
        HEAD[:-1],
        HEAD + b"/dev",
    ],
)
def test_swaps_that_are_damaged(content: bytes) -> None:
    """A list that lacks a size or is truncated has no sum, and this is reported."""
    machine = scan({"proc/swaps": content}).machine
    assert machine.swap is None
    assert [problem.path for problem in machine.problems] == ["/proc/swaps"]


def test_usage_is_not_a_change() -> None:
    """The used size of an area changes all the time; another area is a change."""

    def signature(content: bytes) -> object:
        return swap.COLLECTOR.volatile(Peek(MemoryFiles([("proc/swaps", content)])))

    assert signature(AREAS) == signature(AREAS.replace(b"176", b"99999"))
    assert signature(AREAS) != signature(HEAD)


def test_nvdimms() -> None:
    """Every device of the bus has its type, and a namespace has its mode."""
    machine = scan(nvdimms()).machine
    assert machine.nvdimms == (
        Nvdimm("dax0.0", "nd_dax", None),
        Nvdimm("namespace0.0", "nd_namespace_pmem", "dax"),
        Nvdimm("region0", "nd_pmem", None),
    )
    assert machine.problems == ()


def test_a_lost_type_is_reported() -> None:
    """The kernel names a type for every device of the bus."""
    tree = nvdimms()
    del tree["sys/bus/nd/devices/namespace0.0/devtype"]
    machine = scan(tree).machine
    assert Nvdimm("namespace0.0", None, "dax") in machine.nvdimms
    assert [problem.problem for problem in machine.problems] == ["lacks devtype"]


@given(st.dictionaries(st.sampled_from(sorted(nvdimms())), DAMAGES, min_size=1))
def test_damage_does_not_fail_the_collectors(damages: dict[str, Damage]) -> None:
    """Whatever happens to the files, both collectors go on."""
    assert [run for run in scan(nvdimms(), damages).runs if run.outcome == "failed"] == []
