"""CPU sets, compared with Python's own sets and with the notations that the kernel prints."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zonewise_common.k8s.cpuset import EMPTY, MAX_CPUS, CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable

IDS = st.integers(0, 300) | st.integers(0, MAX_CPUS - 1)
SETS = st.frozensets(IDS, max_size=40)
NOISE = st.text("0123456789-,:/ abcdefxX_+\n\0٣", max_size=30) | st.text(max_size=30) | st.binary(max_size=20).map(str)


def parsed(parse: Callable[[str], CpuSet], text: str) -> CpuSet | str:
    """Return the set that a text parses to, or the message of the ValueError."""
    try:
        return parse(text)
    except ValueError as error:
        return str(error)


def check_bounds(found: CpuSet | str) -> None:
    """Check that a set has no id beyond the bounds, and that an error message fits on one line."""
    assert len(found) < 200 if isinstance(found, str) else max(found, default=0) < MAX_CPUS


def kernel_list(cpus: frozenset[int]) -> str:
    """Return the list notation, computed plainly."""
    parts: list[str] = []
    for cpu in sorted(cpus):
        if cpu - 1 not in cpus:
            last = cpu
            while last + 1 in cpus:
                last += 1
            parts.append(str(cpu) if last == cpu else f"{cpu}-{last}")
    return ",".join(parts)


def kernel_mask(cpus: frozenset[int], bits: int) -> str:
    """Return the mask notation of a kernel for this many CPUs.

    It consists of 32-bit words; the first has only as many digits as it needs.
    """
    words = [sum(1 << (cpu % 32) for cpu in cpus if cpu // 32 == word) for word in range((bits + 31) // 32)]
    first_digits = (bits - 1) % 32 // 4 + 1
    return ",".join([f"{words[-1]:0{first_digits}x}", *(f"{word:08x}" for word in words[-2::-1])])


@given(SETS)
def test_list_round_trip(cpus: frozenset[int]) -> None:
    """The list notation is the kernel's, and parsing it returns the same set."""
    made = CpuSet(cpus)
    assert str(made) == kernel_list(cpus)
    assert CpuSet.parse_list(str(made)) == made


@given(SETS, st.integers(0, 200))
def test_mask_round_trip(cpus: frozenset[int], spare: int) -> None:
    """A mask parses to its set for any number of CPUs in the kernel's build, a multiple of 32 or not."""
    bits = min(max(cpus, default=0) + 1 + spare, MAX_CPUS)
    assert CpuSet.parse_mask(kernel_mask(cpus, bits)) == CpuSet(cpus)
    assert CpuSet.parse_mask(kernel_mask(cpus, bits).upper()) == CpuSet(cpus)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000ff00,00000000", range(40, 48)),
        ("0000,00000011,11111111", range(0, 40, 4)),
        ("1", [0]),
        ("0", []),
        ("00000000,00000000,00000000", []),
        ("3,ffffffff", range(34)),
    ],
)
def test_masks_of_real_kernels(text: str, expected: list[int]) -> None:
    assert list(CpuSet.parse_mask(text)) == list(expected)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 20), st.integers(1, 20))
def test_strided_ranges(low: int, length: int, used: int, more: int) -> None:
    """In every group of CPUs in "low-high:used/group", the first `used` CPUs count."""
    high, group = low + length, used + more
    expected = [cpu for cpu in range(low, high + 1) if (cpu - low) % group < used]
    assert list(CpuSet.parse_list(f"{low}-{high}:{used}/{group}")) == expected


@given(SETS, SETS)
@example(frozenset({MAX_CPUS - 1}), frozenset({0}))
def test_algebra(a: frozenset[int], b: frozenset[int]) -> None:
    """Every operation has the same result as with Python's sets."""
    left, right = CpuSet(a), CpuSet(b)
    assert frozenset(left & right) == a & b
    assert frozenset(left | right) == a | b
    assert frozenset(left - right) == a - b
    assert (left <= right) == (a <= b)
    assert (left < right) == (a < b)
    assert (left == right) == (a == b)
    assert left.isdisjoint(right) == a.isdisjoint(b)


@given(SETS, SETS, SETS)
def test_laws(a: frozenset[int], b: frozenset[int], c: frozenset[int]) -> None:
    """Distributive laws and De Morgan's laws relate the operations to each other."""
    x, y, z = CpuSet(a), CpuSet(b), CpuSet(c)
    assert x & (y | z) == (x & y) | (x & z)
    assert x - (y | z) == (x - y) & (x - z)
    assert (x - y) | (x & y) == x
    assert (x - y).isdisjoint(y)


@given(SETS)
def test_as_a_collection(cpus: frozenset[int]) -> None:
    """Length, order, membership, truth value and hash are those of the ids."""
    made = CpuSet(cpus)
    assert list(made) == sorted(cpus)
    assert len(made) == len(cpus)
    assert bool(made) == bool(cpus)
    assert all(cpu in made for cpu in cpus)
    assert [cpu for cpu in range(-3, 400) if cpu in made] == [cpu for cpu in sorted(cpus) if cpu < 400]
    assert hash(made) == hash(CpuSet(sorted(cpus, reverse=True)))
    assert CpuSet.from_bits(made.bits) == made
    assert repr(made) == f"CpuSet({str(made)!r})"
    if cpus:
        assert made.first() == min(cpus)


@given(SETS)
def test_ranges(cpus: frozenset[int]) -> None:
    """The ranges are ascending and maximal, and contain exactly the CPUs."""
    ranges = list(CpuSet(cpus).ranges())
    assert [cpu for low, high in ranges for cpu in range(low, high + 1)] == sorted(cpus)
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(ranges))


@given(NOISE)
@example("0-" + "9" * 400)
@example("," * 100)
@example("0-10:0/4")
@example("0-10:2/0")
def test_bad_lists_raise_value_error_only(text: str) -> None:
    """Any text parses to a set within bounds, or raises ValueError with a short message."""
    check_bounds(parsed(CpuSet.parse_list, text))


@given(NOISE)
@example("f" * 100_000)
@example("1" + ",00000000" * (MAX_CPUS // 32))
@example("")
def test_bad_masks_raise_value_error_only(text: str) -> None:
    """Any text parses to a set within bounds, or raises ValueError with a short message."""
    check_bounds(parsed(CpuSet.parse_mask, text))


@pytest.mark.parametrize(
    "text",
    ["3-1", "-1", "0-", "a", "0x3", "1_0", " 1", "1 ", "+1", "0,,1", "0,", "0:1/2,", "٣", str(MAX_CPUS), "0-65536"],
)
def test_invalid_lists(text: str) -> None:
    """Reversed ranges, signs, spaces and non-ASCII digits are invalid in CPU lists."""
    with pytest.raises(ValueError, match="CPU range"):
        CpuSet.parse_list(text)


@pytest.mark.parametrize("text", ["", ",", "g", "0x1", "1,1", "1,000000001", "00000001,", "_1", "1 2", "-1"])
def test_invalid_masks(text: str) -> None:
    """All words of a mask but the first have eight hexadecimal digits."""
    with pytest.raises(ValueError, match="mask"):
        CpuSet.parse_mask(text)


@pytest.mark.parametrize("cpu", [-1, MAX_CPUS, 1 << 62])
def test_ids_out_of_bounds(cpu: int) -> None:
    """An id that no kernel uses must not allocate memory."""
    with pytest.raises(ValueError, match="outside"):
        CpuSet([cpu])


def test_a_set_never_equals_another_type() -> None:
    """A CPU set is neither equal to a Python set nor to its list notation."""
    assert CpuSet([1]) != {1}
    assert CpuSet([1]) != "1"
    assert CpuSet.parse_list("") == EMPTY
    with pytest.raises(ValueError, match="no first"):
        EMPTY.first()


@given(st.lists(st.frozensets(st.integers(0, 200))))
def test_union(sets: list[frozenset[int]]) -> None:
    """The union contains every CPU of any of the sets; the union of no sets is empty."""
    assert set(CpuSet.union(map(CpuSet, sets))) == {cpu for one in sets for cpu in one}
