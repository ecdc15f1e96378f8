"""CPU sets in the two notations of the kernel: lists ("0-3,8") and hexadecimal masks ("00000000,0000010f")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_CPUS = 8192
"""Upper bound of CPU ids. Ids from here on are errors, not hardware: no architecture has a CONFIG_NR_CPUS above 8192
(x86 MAXSMP). An unbounded id in a garbled file would need gigabytes of bits."""

_WORD_DIGITS = 8  # lib/vsprintf.c bitmap_string() prints 32-bit words, every one but the first with 8 digits


class CpuSet:
    """An immutable set of CPU ids (hardware threads as the kernel numbers them), stored as the bits of an integer."""

    __slots__ = ("bits",)

    bits: int

    def __init__(self, cpus: Iterable[int] = ()) -> None:
        """Create a set of ids; raise ValueError for ids that are negative or at least MAX_CPUS."""
        bits = 0
        for cpu in cpus:
            if not 0 <= cpu < MAX_CPUS:
                raise ValueError(f"CPU id {cpu} is outside 0..{MAX_CPUS - 1}")
            bits |= 1 << cpu
        self.bits = bits

    @classmethod
    def from_bits(cls, bits: int) -> CpuSet:
        """Create a set from the bits of a non-negative integer: bit n stands for CPU n."""
        cpus = cls.__new__(cls)
        cpus.bits = bits
        return cpus

    @classmethod
    def parse_list(cls, text: str) -> CpuSet:
        """Read the kernel's list notation; raise ValueError for other texts.

        It allows ranges, single ids, an empty string, and the strided ranges "0-10:2/4" of lib/bitmap-str.c
        bitmap_parselist(): the first 2 of every 4 CPUs.
        """
        bits = 0
        for part in text.split(",") if text else ():
            bits |= _range_bits(part)
        return cls.from_bits(bits)

    @classmethod
    def parse_mask(cls, text: str) -> CpuSet:
        """Read the kernel's mask notation, comma-separated words of hexadecimal digits; raise ValueError for others."""
        words = text.split(",")
        if not text or any(len(word) != _WORD_DIGITS for word in words[1:]):
            raise ValueError(f"not a CPU mask: {text[:80]!r}")
        digits = "".join(words)
        if len(digits) * 4 > 2 * MAX_CPUS or not _is_hexadecimal(digits):
            raise ValueError(f"not a CPU mask: {text[:80]!r}")
        bits = int(digits, 16)
        if bits >> MAX_CPUS:
            raise ValueError(f"CPU mask names a CPU above {MAX_CPUS - 1}")
        return cls.from_bits(bits)

    @classmethod
    def union(cls, sets: Iterable[CpuSet]) -> CpuSet:
        """Return the CPUs that are in any of the sets."""
        bits = 0
        for cpus in sets:
            bits |= cpus.bits
        return cls.from_bits(bits)

    def first(self) -> int:
        """Return the lowest CPU id; raise ValueError for an empty set."""
        if not self.bits:
            raise ValueError("an empty CPU set has no first CPU")
        return (self.bits & -self.bits).bit_length() - 1

    def isdisjoint(self, other: CpuSet) -> bool:
        """Return whether no CPU is in both sets."""
        return not self.bits & other.bits

    def __and__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_bits(self.bits & other.bits)

    def __or__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_bits(self.bits | other.bits)

    def __sub__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_bits(self.bits & ~other.bits)

    def __le__(self, other: CpuSet) -> bool:
        return not self.bits & ~other.bits

    def __lt__(self, other: CpuSet) -> bool:
        return self.bits != other.bits and self <= other

    def __contains__(self, cpu: int) -> bool:
        return cpu >= 0 and bool(self.bits >> cpu & 1)

    def __iter__(self) -> Iterator[int]:
        bits = self.bits
        while bits:
            low = bits & -bits
            yield low.bit_length() - 1
            bits ^= low

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __bool__(self) -> bool:
        return bool(self.bits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CpuSet) and self.bits == other.bits

    def __hash__(self) -> int:
        return hash(self.bits)

    def __str__(self) -> str:
        """Return the kernel's list notation: ascending, ranges of two and more joined."""
        return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in self.ranges())

    def __repr__(self) -> str:
        return f"CpuSet({str(self)!r})"

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the maximal runs of consecutive ids as (first, last), ascending."""
        bits, base = self.bits, 0
        while bits:
            skip = (bits & -bits).bit_length() - 1
            bits >>= skip
            run = (~bits & (bits + 1)).bit_length() - 1
            yield base + skip, base + skip + run - 1
            bits >>= run
            base += skip + run


EMPTY = CpuSet()


def _range_bits(part: str) -> int:
    """Return the bits of one comma-separated part: "5", "0-3" or "0-10:2/4"."""
    span, colon, stride = part.partition(":")
    low_text, dash, high_text = span.partition("-")
    low = _number(low_text, part)
    high = _number(high_text, part) if dash else low
    if low > high or high >= MAX_CPUS:
        raise ValueError(f"not a CPU range: {part[:80]!r}")
    if not colon:
        return (1 << (high + 1)) - (1 << low)
    used_text, slash, group_text = stride.partition("/")
    used, group = _number(used_text, part), _number(group_text, part)
    if not slash or not 0 < used <= group:
        raise ValueError(f"not a strided CPU range: {part[:80]!r}")
    return sum(1 << cpu for cpu in range(low, high + 1) if (cpu - low) % group < used)


def _number(text: str, part: str) -> int:
    # str.isdecimal() would accept digits of other scripts, int() would accept "1_0" and " 1"
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(MAX_CPUS)):
        raise ValueError(f"not a CPU range: {part[:80]!r}")
    return int(text)


def _is_hexadecimal(digits: str) -> bool:
    return not digits.strip("0123456789abcdefABCDEF")
