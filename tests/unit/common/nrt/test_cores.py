"""Cores as text: any partition of CPUs is read back, and the text of a usual machine has only a few characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.cores import read_cores, write_cores


@st.composite
def partitions(draw: st.DrawFn) -> list[CpuSet]:
    """Draw any CPUs, partitioned in any way."""
    cpus = draw(st.permutations(sorted(draw(st.sets(st.integers(0, 80), max_size=24)))))
    cores: list[CpuSet] = []
    while cpus:
        count = draw(st.integers(1, min(4, len(cpus))))
        cores.append(CpuSet(cpus[:count]))
        cpus = cpus[count:]
    return cores


@given(partitions())
def test_round_trip(cores: list[CpuSet]) -> None:
    """Every partition is read back, ordered by the cores' first CPUs; its text does not depend on the order."""
    text = write_cores(cores)
    assert read_cores(text) == tuple(sorted(cores, key=CpuSet.first))
    assert write_cores(reversed(cores)) == text


@pytest.mark.parametrize(
    ("cores", "text"),
    [
        ([(0, 4), (1, 5), (2, 6), (3, 7)], "0-3/4-7"),
        ([(0, 1), (2, 3), (4, 5)], "0-5*2"),
        ([tuple(range(start, start + 8)) for start in range(0, 32, 8)], "0-31*8"),
        ([(0,), (1,)], "0-1"),
        ([(0, 1), (2, 3), (4,), (5,)], "0-3*2;4-5"),
        ([(0, 3), (1, 2)], "0,3*2;1-2*2"),
        ([(0, 2), (1,)], "0,2*2;1"),
        ([(0, 4), (2, 6)], "0,2/4,6"),
        ([], ""),
    ],
)
def test_texts(cores: list[tuple[int, ...]], text: str) -> None:
    """Examples of servers and virtual machines, with eight threads, without threads, hybrid, and irregular."""
    assert write_cores(map(CpuSet, cores)) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0-3/4", "'0-3/4'"),
        ("0-2*2", r"'0-2\*2'"),
        ("0-3*", r"'0-3\*'"),
        ("0-3*0", r"'0-3\*0'"),
        ("0-1/0-1", "'0-1/0-1'"),
        ("0;0-1", "two cores"),
        (";", "''"),
        ("x", "'x'"),
        ("0-3*2/4-7", r"'0-3\*2/4-7'"),
    ],
)
def test_damage(text: str, problem: str) -> None:
    """An invalid text is an error that quotes it."""
    with pytest.raises(ValueError, match=problem):
        read_cores(text)
