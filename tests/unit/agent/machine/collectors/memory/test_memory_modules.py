"""Memory modules in SMBIOS structures, whole, old and damaged; and data that must never be read from them."""

from __future__ import annotations

import errno
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.machine.collectors.memory import memory_modules
from zonewise.machine.collectors.memory.smbios import memory_module, structures
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.host import MemoryModule

ENTRIES = memory_modules.ENTRIES
SERIAL, ASSET = "48AAE639", "01115021"
STRINGS = ("DIMM_A1", "BANK 0", "Samsung", SERIAL, ASSET, "M393A4K40DB3-CWE ")
MIB = 1 << 20


def device(
    *,
    size: int = 16384,
    extended_size: int = 0,
    strings: tuple[str, ...] = STRINGS,
    kind: int = 0x1A,
    speeds: tuple[int, int] = (3200, 2933),
    extended_speeds: tuple[int, int] = (0, 0),
    length: int = 0x5C,
) -> bytes:
    """Return a type 17 structure of SMBIOS 3.3, or its first bytes, with its strings."""
    fixed = struct.pack(
        "<BBHHHHHHBBBBBHHBBBBBIH", 17, length, 0x1100, 0x1000, 0xFFFE, 72, 64, size, 9, 1, 1, 2, kind, 0x2080,
        speeds[0], 3, 4, 5, 6, 2, extended_size, speeds[1],
    )  # fmt: skip
    fixed = fixed.ljust(0x54, b"\0") + struct.pack("<II", *extended_speeds)
    return fixed[:length] + b"".join(text.encode() + b"\0" for text in strings) + b"\0"


def test_a_module() -> None:
    """Every field is read from its offset, without the blanks of the strings."""
    assert memory_module(device()) == MemoryModule(
        "DIMM_A1", 16384 * MIB, "DDR4", "Samsung", "M393A4K40DB3-CWE", 3200, 2, "BANK 0", "DIMM", 2933
    )


def test_no_serial_number_and_no_asset_tag() -> None:
    """The module contains nothing that identifies a person's property."""
    text = repr(memory_module(device()))
    assert SERIAL not in text
    assert ASSET not in text


@pytest.mark.parametrize(
    ("size", "extended", "expected"),
    [
        (16384, 0, 16384 * MIB),
        (0x8000 | 512, 0, 512 * 1024),
        (0x7FFF, 131072, 131072 * MIB),
        (0x7FFF, 0x80000000 | 65536, 65536 * MIB),
        (0xFFFF, 0, None),
    ],
)
def test_sizes(size: int, extended: int, expected: int | None) -> None:
    """Sizes are in MiB, in KiB if the highest bit is set, or in the wider field; they may be unknown."""
    module = memory_module(device(size=size, extended_size=extended))
    assert module is not None
    assert module.size == expected


def test_speeds() -> None:
    """Speeds beyond 16 bits are in the wider fields; 0 is unknown."""
    module = memory_module(device(speeds=(0xFFFF, 0), extended_speeds=(70000, 0)))
    assert module is not None
    assert (module.speed_mts, module.configured_mts) == (70000, None)


@pytest.mark.parametrize("kind", [0x02, 0x00, 0x15, 0xFF])
def test_unknown_types(kind: int) -> None:
    """The code for "unknown", a code without a meaning yet, and a code beyond the list are all unknown."""
    module = memory_module(device(kind=kind))
    assert module is not None
    assert module.type is None


def test_empty_slots() -> None:
    """A slot is empty if its size is 0, or if vendor, part and number are all missing."""
    assert memory_module(device(size=0)) is None
    assert memory_module(device(size=0xFFFF, strings=("DIMM_A1", "BANK 0", "   ", "   ", "   ", "   "))) is None


def test_an_old_structure() -> None:
    """SMBIOS 2.3 ends after the part number; later fields are unknown."""
    module = memory_module(device(length=0x1B))
    assert module == MemoryModule(
        "DIMM_A1", 16384 * MIB, "DDR4", "Samsung", "M393A4K40DB3-CWE", 3200, None, "BANK 0", "DIMM", None
    )


def test_absent_strings() -> None:
    """A string number beyond the last string is no string."""
    module = memory_module(device(strings=("DIMM_A1", "BANK 0", "Samsung")))
    assert module is not None
    assert (module.vendor, module.part) == ("Samsung", None)


@pytest.mark.parametrize("cut", [0, 1, 4, 0x1A, 0x40, 0x5B, 0x60, -1])
def test_a_structure_that_is_cut_short(cut: int) -> None:
    """A partial structure is not a module."""
    with pytest.raises(ValueError, match=r"SMBIOS|truncated"):
        memory_module(device()[:cut])


def test_another_type() -> None:
    """Only type 17 is a memory device."""
    with pytest.raises(ValueError, match="memory device"):
        memory_module(b"\x10" + device()[1:])


@given(st.binary(max_size=200))
def test_noise_is_rejected_or_gives_a_module(noise: bytes) -> None:
    """Any bytes are rejected with a ValueError or give a module with numbers within bounds."""
    try:
        module = memory_module(noise)
    except ValueError:
        return
    assert module is None or module.size is None or 0 < module.size < 1 << 57


@given(st.binary(max_size=300))
def test_structures_are_parts_of_the_table(table: bytes) -> None:
    """For any bytes, the structures follow one another, and the walk ends."""
    assert table.startswith(b"".join(structures(table)))


def test_structures_of_a_table() -> None:
    """The table is read up to its end mark, past structures of every type."""
    processor = struct.pack("<BBH", 4, 6, 1) + b"ab" + b"CPU0\0\0"
    end = struct.pack("<BBH", 127, 4, 2) + b"\0\0"
    assert list(structures(processor + device() + end + device())) == [processor, device()]


# --- the collector


class Closed(MemoryFiles):
    """Files in which the firmware's tables are readable only by root."""

    def read(self, path: str) -> bytes:
        if "firmware" in path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return super().read(path)


def scan_modules(files: MemoryFiles) -> Scan:
    return Scanner(files, explain=True, collectors=(memory_modules.COLLECTOR,)).scan()


def entries(*contents: bytes) -> MemoryFiles:
    return MemoryFiles([(f"{ENTRIES}/17-{n}/raw", content) for n, content in enumerate(contents)])


def test_entries_in_the_order_of_their_numbers() -> None:
    """Entry 10 comes after entry 9."""
    devices = [device(strings=(f"SLOT {number}", *STRINGS[1:])) for number in range(12)]
    scan = scan_modules(entries(*devices))
    assert [module.location for module in scan.machine.memory_modules] == [f"SLOT {number}" for number in range(12)]
    assert scan.machine.problems == ()
    assert scan.sources["memory_modules.11"].file == f"/{ENTRIES}/17-11/raw"


def test_the_whole_table() -> None:
    """Without the entries, the table is read."""
    end = struct.pack("<BBH", 127, 4, 2) + b"\0\0"
    files = MemoryFiles([(memory_modules.TABLE, device() + device(size=0) + device(size=8192) + end)])
    scan = scan_modules(files)
    assert [module.size for module in scan.machine.memory_modules] == [16384 * MIB, 8192 * MIB]


def test_absent_tables_and_tables_only_for_root() -> None:
    """A machine without SMBIOS is not damaged, nor is one with tables only for root."""
    for files in (MemoryFiles([]), Closed([(f"{ENTRIES}/17-0/raw", device())]), Closed([(memory_modules.TABLE, b"")])):
        scan = scan_modules(files)
        assert [run.outcome for run in scan.runs] == ["no data"]
        assert scan.machine.problems == ()


def test_damaged_entries_are_left_out_and_reported() -> None:
    """A truncated, empty or missing entry, or a directory in its place, loses its slot; the others remain."""
    good = device()
    files = MemoryFiles(
        [
            (f"{ENTRIES}/17-0/raw", good),
            (f"{ENTRIES}/17-1/raw", good[:50]),
            (f"{ENTRIES}/17-2/raw", b""),
            (f"{ENTRIES}/17-3/raw", None),
            (f"{ENTRIES}/17-5/raw", good),
        ]
    )
    scan = scan_modules(files)
    assert len(scan.machine.memory_modules) == 2
    assert sorted(problem.path for problem in scan.machine.problems) == [
        f"/{ENTRIES}/17-{number}/raw" for number in (1, 2, 3, 4)
    ]
