"""Frequency limits and capacities, read once for CPUs that are clocked together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.cpu_trees import CPU, cpuset, line, paths, reader
from support.damage import DELETE, Damage, Damaged, Recording
from zonewise.machine.collectors.cpu.frequencies import UNKNOWN, Limits, read_capacities, read_limits
from zonewise.machine.files import MemoryFiles
from zonewise.machine.reader import Reader

if TYPE_CHECKING:
    from support.trees import Contents

CPUS = cpuset("0-3")


def policies(*together: str, base: int | None = 2_000_000) -> Contents:
    """Return groups of CPUs that are clocked together; each group has a maximum 100 MHz above that of the next."""
    tree: Contents = {}
    for number, text in enumerate(together):
        for cpu in cpuset(text):
            directory = f"{CPU}/cpu{cpu}/cpufreq"
            tree |= {f"{directory}/cpuinfo_max_freq": line(3_000_000 - 100_000 * number)}
            tree |= {f"{directory}/cpuinfo_min_freq": line(800_000)}
            tree |= {f"{directory}/related_cpus": line(" ".join(map(str, cpuset(text))))}
            if base:
                tree[f"{directory}/base_frequency"] = line(base)
    return tree


def test_limits_in_mhz() -> None:
    """The kernel prints kHz."""
    frequency_limits = read_limits(reader(policies("0-1", "2-3")), CPUS)
    assert frequency_limits == dict.fromkeys((0, 1), Limits(3000, 800, 2000)) | dict.fromkeys(
        (2, 3), Limits(2900, 800, 2000)
    )


def test_a_policy_is_read_once() -> None:
    """CPUs that are clocked together are read from the first of them."""
    files = Recording(MemoryFiles(policies("0-1", "2-3").items()))
    read_limits(Reader(files), CPUS)
    assert {path.split("/")[4] for path in files.reads} == {"cpu0", "cpu2"}
    assert len(files.reads) == len(set(files.reads)) == 2 * 4


def test_kernels_without_frequency_scaling() -> None:
    """Without cpufreq, nothing is known, nothing is reported, and hardly any file is looked up."""
    files = Recording(MemoryFiles({f"{CPU}/cpu{cpu}/online": b"1\n" for cpu in CPUS}.items()))
    read = Reader(files)
    assert read_limits(read, CPUS) == {}
    assert read_capacities(read, CPUS) == {}
    assert (read.problems, files.reads) == ([], [])


def test_the_nominal_frequency_replaces_the_base() -> None:
    """Drivers other than Intel's get it in MHz from ACPI CPPC; it is 0 if the firmware has none."""
    tree = policies("0", "1", "2", "3", base=None)
    tree |= {f"{CPU}/cpu{cpu}/acpi_cppc/nominal_freq": line(mhz) for cpu, mhz in enumerate((2450, 2450, 0, 2450))}
    assert [limits.base for limits in read_limits(reader(tree), CPUS).values()] == [2450, 2450, None, 2450]
    intel = tree | {f"{CPU}/cpu{cpu}/cpufreq/base_frequency": line(1_900_000) for cpu in CPUS}
    assert {limits.base for limits in read_limits(reader(intel), CPUS).values()} == {1900}


@pytest.mark.parametrize("content", [b"-1\n", b"0\n", b"junk\n", b"", b"4294967295\n", b"9" * 60 + b"\n"])
def test_impossible_frequencies(content: bytes) -> None:
    """No frequency is negative, zero or a terahertz: such a value is unknown and reported."""
    for name, field in (("cpuinfo_max_freq", "maximum"), ("cpuinfo_min_freq", "minimum"), ("base_frequency", "base")):
        path = f"{CPU}/cpu2/cpufreq/{name}"
        read = reader(policies("0-1", "2-3") | {path: content})
        assert getattr(read_limits(read, CPUS)[2], field) is None
        assert set(paths(read.problems)) == {path}


def test_a_lost_file_is_reported() -> None:
    """The absence of a file that other CPUs have is a loss."""
    path = f"{CPU}/cpu1/cpufreq/cpuinfo_max_freq"
    read = Reader(Damaged(MemoryFiles(policies("0", "1", "2", "3").items()), {path: Damage(DELETE)}))
    assert read_limits(read, CPUS)[1] == Limits(None, 800, 2000)
    assert paths(read.problems) == [path]


@pytest.mark.parametrize("content", [b"0 x\n", b"0 99999999\n", b"-1\n"])
def test_damaged_related_cpus(content: bytes) -> None:
    """If it is unknown which CPUs share a clock, each CPU is read separately, and nothing is lost."""
    read = reader(policies("0-1", "2-3") | {f"{CPU}/cpu0/cpufreq/related_cpus": content})
    assert read_limits(read, CPUS) == read_limits(reader(policies("0-1", "2-3")), CPUS)
    assert paths(read.problems) == [f"{CPU}/cpu0/cpufreq/related_cpus"]


def test_related_cpus_that_are_not_online() -> None:
    """Only online CPUs have limits."""
    assert set(read_limits(reader(policies("0-3")), cpuset("1,3"))) == {1, 3}


def test_capacities() -> None:
    """Each CPU has a capacity; an impossible or lost one is unknown and reported."""
    tree: Contents = {f"{CPU}/cpu{cpu}/cpu_capacity": line(446 if cpu < 2 else 1024) for cpu in CPUS}
    assert read_capacities(reader(tree), CPUS) == {0: 446, 1: 446, 2: 1024, 3: 1024}
    for content in (b"0\n", b"-5\n", b"4294967295\n", b"x\n"):
        read = reader(tree | {f"{CPU}/cpu1/cpu_capacity": content})
        assert read_capacities(read, CPUS) == {0: 446, 2: 1024, 3: 1024}
        assert paths(read.problems) == [f"{CPU}/cpu1/cpu_capacity"]


def test_unknown() -> None:
    assert Limits(None, None, None) == UNKNOWN
