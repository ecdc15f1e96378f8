"""The format of numbers and names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.machine_parts import GIB, KIB, MIB, TIB
from zonewise.machine.model.cpu import Cache
from zonewise.render.formatting import (
    cache_name,
    clean,
    format_bytes,
    format_count,
    format_cpu_list,
    format_link_speed,
    format_name_list,
    format_name_range,
    format_number_list,
    format_pcie_speed,
    model_name,
)
from zonewise_common.k8s.cpuset import CpuSet


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (32 * KIB, "32 KiB"),
        (1280 * KIB, "1.25 MiB"),
        (1408 * KIB, "1.38 MiB"),
        (25344 * KIB, "24.75 MiB"),
        (105 * MIB, "105 MiB"),
        (128 * GIB, "128 GiB"),
        (16_777_216_000, "15.6 GiB"),
        (2 * TIB, "2 TiB"),
        (1024 * GIB - 1, "1 TiB"),
        (1 << 80, "1048576 EiB"),
    ],
)
def test_sizes_have_common_units(count: int, text: str) -> None:
    """The largest binary unit is used, exactly if two decimals suffice, and never with 1024 of a unit."""
    assert format_bytes(count) == text


@given(st.integers(0, 1 << 62))
def test_a_written_size_is_near_the_number(count: int) -> None:
    """A parsed size is within 0.5% of the bytes."""
    number, unit = format_bytes(count).split()
    scale = 1024 ** ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB").index(unit)
    assert abs(float(number) * scale - count) <= count * 0.005


@pytest.mark.parametrize(
    ("kernel", "shown"),
    [
        ("", ""),
        ("0-3,8", "0-3,8"),
        ("0,2,4,6", "0,2,4,6"),
        ("0,2,4,6,8", "0,2,..,8"),
        ("0-1,4,8,12,16,20,22-23", "0-1,4,8,..,20,22-23"),
        ("0,2,4,6,8,11,14,17,20,23", "0,2,..,8,11,14,..,23"),
        ("4-5,8-9,12-13,16-17,20-21,24", "4-5,8-9,..,20-21,24"),
    ],
)
def test_evenly_spaced_cpus_are_shortened(kernel: str, shown: str) -> None:
    """A CPU list is the kernel's, except for long rows of single CPUs at equal distances."""
    assert format_cpu_list(CpuSet.parse_list(kernel)) == shown


def _read(text: str) -> set[int]:
    """Parse a shortened list."""
    runs: list[tuple[int, int]] = []
    for part in text.split(",") if text else []:
        low, _, high = part.partition("-")
        if runs and runs[-1] == (-1, -1):
            runs.pop()
            step = runs[-1][0] - runs[-2][0]
            while runs[-1][0] + step < int(low):
                runs.append((runs[-1][0] + step, runs[-1][1] + step))
        runs.append((-1, -1) if part == ".." else (int(low), int(high or low)))
    return {number for low, high in runs for number in range(low, high + 1)}


@given(
    st.sets(st.integers(0, 60)) | st.builds(range, st.integers(0, 9), st.integers(20, 60), st.integers(1, 5)).map(set)
)
def test_a_shortened_list_loses_no_cpu(cpus: set[int]) -> None:
    """The parsed list equals the original set; CPU sets and plain numbers have the same format."""
    assert _read(format_cpu_list(CpuSet(cpus))) == cpus
    assert format_number_list(sorted(cpus)) == format_cpu_list(CpuSet(cpus))


@given(st.text())
def test_a_clean_text_cannot_control_a_terminal(text: str) -> None:
    """Whatever the names of a machine's parts are, no control characters or line ends remain."""
    cleaned = clean(text)
    assert cleaned.isprintable()
    assert cleaned == clean(cleaned)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Intel(R) Xeon(R) Platinum 8273CL CPU @ 2.20GHz", "Intel Xeon Platinum 8273CL"),
        ("AMD EPYC 7763 64-Core Processor", "AMD EPYC 7763"),
        ("12th Gen Intel(R) Core(TM) i7-1260P", "12th Gen Intel Core i7-1260P"),
        ("Neoverse-V2", "Neoverse-V2"),
        ("CPU", "CPU"),
        ("", ""),
    ],
)
def test_processors_are_named_without_ornaments(name: str, shown: str) -> None:
    """Trademarks, filler words and the base frequency are removed; the name remains and is never empty."""
    assert model_name(name) == shown


def test_small_phrases() -> None:
    """Counts, speeds, link generations, ranges of names and caches are easy to read."""
    assert [format_count(1, "core"), format_count(2, "core")] == ["1 core", "2 cores"]
    assert [format_link_speed(400_000), format_link_speed(2_500), format_link_speed(100)] == [
        "400 Gb/s",
        "2.5 Gb/s",
        "100 Mb/s",
    ]
    assert [format_pcie_speed(32.0), format_pcie_speed(2.5), format_pcie_speed(3.0)] == ["Gen5", "Gen1", "3 GT/s"]
    cpus = CpuSet((0,))
    caches = [Cache(1, "Data", 32 * KIB, cpus), Cache(1, "Instruction", None, cpus), Cache(3, "Unified", MIB, cpus)]
    assert [cache_name(cache) for cache in caches] == ["L1d 32 KiB", "L1i", "L3 1 MiB"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "a"),
        (["nvme0n1", "nvme1n1", "nvme2n1"], "nvme0n1..nvme2n1"),
        (["mlx5_0/ib0", "mlx5_1/ib1"], "mlx5_0/ib0..mlx5_1/ib1"),
        (["nvme0n1", "nvme2n1"], "nvme0n1,..,nvme2n1"),
        (["sda", "sdb", "sdc"], "sda,..,sdc"),
        (["eth0", "ib1"], "eth0,..,ib1"),
    ],
)
def test_a_range_implies_no_absent_name(names: list[str], text: str) -> None:
    """Two dots are only between consecutive names; other lists are shown by their first and last name."""
    assert format_name_range(names) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["GPU10", "NVMe0", "GPU9", "NVMe1", "GPU8"], "GPU8..GPU10, NVMe0..NVMe1"),
        (["GPU2", "GPU0", "GPU5"], "GPU0, GPU2, GPU5"),
        (["nvme0n1", "nvme0n2", "nvme1n1"], "nvme0n1..nvme0n2, nvme1n1"),
        (["network", "GPU0"], "GPU0, network"),
    ],
)
def test_a_list_of_names_has_each(names: list[str], text: str) -> None:
    """Numbers are compared as numbers, and the order of the names does not matter."""
    assert format_name_list(names) == text
