"""Tolerant reading: the content of a file, or None and a problem."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.problem import Problem, Source
from zonewise.machine.reader import Pair, Reader, cpu_set, natural, parse_integer, parse_size
from zonewise_common.k8s.cpuset import CpuSet

SYSTEM = "sys/devices/system"


def reader(explain: bool = False, /, **contents: bytes | str) -> Reader:
    """Return a reader of files whose names have "__" for "/"."""
    return Reader(
        MemoryFiles([(path.replace("__", "/"), content) for path, content in contents.items()]), explain=explain
    )


class Failing(MemoryFiles):
    """Files that all fail with one error of the kernel."""

    def __init__(self, number: int) -> None:
        super().__init__([])
        self.number = number

    def read(self, path: str) -> bytes:
        raise OSError(self.number, os.strerror(self.number), path)

    def names(self, path: str) -> list[str]:
        raise OSError(self.number, os.strerror(self.number), path)

    def link(self, path: str) -> str:
        raise OSError(self.number, os.strerror(self.number), path)


@pytest.mark.parametrize(
    ("content", "value"),
    [(b"5\n", 5), (b"-1\n", -1), (b"5\n\0", 5), (b"18446744073709551615\n", (1 << 64) - 1), (b" 7\n", 7)],
)
def test_whole_numbers(content: bytes, value: int) -> None:
    """Numbers may have a sign, a NUL after the line end, and up to 64 bits."""
    read = reader(sys__n=content)
    assert read.integer("sys/n") == value
    assert read.problems == []


@pytest.mark.parametrize(
    "content", [b"x\n", b"1_0\n", b"1 2\n", b"\xff\xfe\n", b"99999999999999999999999\n", b"0x10\n", b"5\0\x004\n"]
)
def test_a_garbled_number_is_a_problem(content: bytes) -> None:
    """A garbled number is unknown and reported."""
    read = reader(sys__n=content)
    assert read.integer("sys/n") is None
    assert [problem.path for problem in read.problems] == ["/sys/n"]


def test_an_absent_value_is_not_a_problem() -> None:
    """An absent file, or one without a value, is unknown without a problem."""
    read = reader(sys__null=b"(null)\n", sys__line=b"\n")
    assert [read.integer(f"sys/{name}") for name in ("absent", "null", "line")] == [None] * 3
    assert read.text("sys/null") is None
    assert read.problems == []


def test_a_needed_fact_that_is_lost_is_a_problem() -> None:
    """If a fact is lost because its file is missing, the problem names the file and the fact."""
    read = reader(sys__empty=b"", sys__null=b"(null)\n")
    assert [read.integer(f"sys/{name}", needed="the size") for name in ("absent", "empty", "null")] == [None] * 3
    assert [problem.path for problem in read.problems] == ["/sys/absent", "/sys/empty", "/sys/null"]
    assert all("the size" in f"{problem.problem} {problem.used}" for problem in read.problems)


def test_an_emptied_file_is_a_problem_even_unneeded() -> None:
    """The kernel ends even an empty attribute with a line end, so an empty file has lost its content."""
    read = reader(sys__list=b"", sys__number=b"")
    assert read.cpus("sys/list") is None
    assert read.integer("sys/number") is None
    assert len(read.problems) == 2
    assert reader(sys__list=b"\n").cpus("sys/list") == CpuSet()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP])
def test_failing_reads_are_problems(number: int) -> None:
    """An error that means more than an absent value is a problem, for every kind of read."""
    read = Reader(Failing(number))
    assert read.integer("a") is None
    assert read.text("b") is None
    assert read.names("c") == []
    assert read.link("d") is None
    assert [problem.path for problem in read.problems] == ["/a", "/b", "/c", "/d"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENODATA, errno.EOPNOTSUPP, errno.ENODEV, errno.ENXIO])
def test_a_driver_without_a_value_is_not_a_problem(number: int) -> None:
    """A value such as the speed of a link that is down is unknown without a problem, unless it is needed."""
    read = Reader(Failing(number))
    assert read.integer("a") is None
    assert read.problems == []
    assert read.integer("a", needed="the id") is None
    assert len(read.problems) == 1


def test_a_truncated_number_is_not_used() -> None:
    """Kernel attributes end with a line end. One without was truncated: "12" may have been "128"."""
    whole = {f"{SYSTEM}/cpu/possible".replace("/", "__"): b"0-3\n"}
    read = reader(**whole, sys__devices__system__node__node0__x=b"12")
    assert read.integer(f"{SYSTEM}/node/node0/x") is None
    assert "truncated" in read.problems[0].problem


def test_a_tree_without_line_ends_is_used() -> None:
    """A copy in which no file has a line end was written that way and is not truncated."""
    read = reader(sys__devices__system__cpu__possible=b"0-3", sys__devices__system__node__node0__x=b"12")
    assert read.integer(f"{SYSTEM}/node/node0/x") == 12
    assert read.problems == []


PAIRS = (Pair("cpus_list", "cpus"), Pair("old_list", "old"))


def test_a_damaged_list_is_replaced_by_its_mask() -> None:
    """The mask has the same CPUs as the list, so it is used instead, and the list is a problem."""
    read = reader(a__cpus_list=b"0-\n", a__cpus=b"f\n")
    assert cpu_set(read, "a", PAIRS, rule="") == CpuSet(range(4))
    assert read.problems == [Problem("/a/cpus_list", "is not a CPU list: '0-'", "/a/cpus")]


def test_old_kernels_have_older_names() -> None:
    """If the newer files are absent, the older ones are read without a problem."""
    read = reader(a__old=b"3\n")
    assert cpu_set(read, "a", PAIRS, rule="") == CpuSet([0, 1])
    assert read.problems == []
    assert cpu_set(reader(), "a", PAIRS, rule="") is None


def test_sources_are_recorded_only_on_request() -> None:
    """For --explain, the source of a fact is recorded with file, text and rule; otherwise nothing is."""
    read = reader(True, sys__n=b"32K\n")
    assert read.size("sys/n", fact="caches.0.size", rule="size of the index") == 32768
    assert read.sources == {"caches.0.size": Source("/sys/n", "32K", "size of the index")}
    assert reader(sys__n=b"1\n").sources is None


def test_links_resolve_a_single_step_relative_to_the_root() -> None:
    """A link is resolved by one step, textually; a path that is not a link gives None."""
    read = reader(sys__bus__a="../devices/x", sys__abs="/sys/y", sys__file=b"")
    assert read.link("sys/bus/a") == "sys/devices/x"
    assert read.link("sys/abs") == "sys/y"
    assert read.link("sys/file") is None
    assert read.link("sys/absent") is None
    assert read.problems == []


def test_binary_text_is_a_problem_and_printable() -> None:
    """Bytes that are not text are escaped, so every output can print them."""
    read = reader(sys__name=b"ab\xff\x00c\n")
    assert read.text("sys/name") == "ab\\xff\0c"
    assert len(read.problems) == 1


def test_natural_order() -> None:
    """Numbers inside names are compared as numbers."""
    assert natural(["cpu10", "cpu2", "cpufreq", "10", "9", "a"]) == ["9", "10", "a", "cpu2", "cpu10", "cpufreq"]


@given(st.lists(st.text(max_size=6)))
def test_natural_order_sorts_any_names(names: list[str]) -> None:
    """Any names can be sorted, whatever digits of whatever script they contain."""
    assert sorted(natural(names)) == sorted(names)


@pytest.mark.parametrize(
    ("text", "size"),
    [("32K", 32768), ("1024 kB", 1 << 20), ("2M", 2 << 20), ("512", 512), ("1G", 1 << 30), ("4KiB", 4096)],
)
def test_sizes(text: str, size: int) -> None:
    """Sizes are returned in bytes, whatever the unit of the file."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["18446744073709551615", "4194304K", "4G", "-1K", "0bK"])
def test_impossible_sizes(text: str) -> None:
    """No kernel prints the size of a cache of 4 GiB or more."""
    with pytest.raises(ValueError, match="not a size: "):
        parse_size(text)


@given(st.text(max_size=40))
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    """For any text, the parsers return a value in range or raise ValueError."""
    for parse in (parse_integer, parse_size, CpuSet.parse_list, CpuSet.parse_mask):
        try:
            value = parse(text)
        except ValueError:
            continue
        if isinstance(value, int):
            assert -(1 << 63) <= value < 1 << 94


@given(st.binary(max_size=60))
def test_any_content_is_a_value_or_a_problem(content: bytes) -> None:
    """For any content, every typed read returns a value or None and never raises."""
    read = reader(sys__x=content)
    for typed in (read.integer, read.size, read.cpus, read.mask, read.text):
        typed("sys/x", needed="it")
