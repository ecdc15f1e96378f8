"""SMBIOS tables without serial numbers: the modules remain, and damaged tables reveal nothing either."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise.machine.capture.smbios_scrubber import without_serials


def structure(kind: int, formatted: bytes, *strings: bytes) -> bytes:
    """Return a structure; its strings are numbered from 1."""
    header = bytes((kind, 4 + len(formatted), 0, 0))
    return header + formatted + (b"".join(text + b"\0" for text in strings) or b"\0") + b"\0"


# manufacturer, product, version, serial number; UUID; wake-up type, SKU, family
SYSTEM = structure(
    1, bytes((1, 2, 0, 3)) + bytes(range(16)) + bytes((6, 0, 0)), b"Supermicro", b"SYS-821GE", b"S123456"
)
MODULE = structure(
    17,
    bytes(0x10 - 4) + bytes((1, 2, 0x1A, 0, 0, 0, 0, 3, 4, 5, 6)),
    b"DIMM_A1", b"P0_Node0", b"Samsung", b"80CE012345678", b"Asset-9", b"M321R8GA0BB0-CQKZJ",
)  # fmt: skip
END = structure(127, b"")


def test_the_system() -> None:
    """Serial number and UUID are removed; manufacturer and product remain, and no length changes."""
    clean = without_serials(SYSTEM + END)
    assert len(clean) == len(SYSTEM + END)
    assert b"S123456" not in clean
    assert bytes(range(16)) not in clean
    assert b"Supermicro\0SYS-821GE\0XXXXXXX\0" in clean


def test_a_memory_module() -> None:
    """The serial number and asset tag of a module are removed; its maker, part and slot remain."""
    clean = without_serials(MODULE + END)
    assert b"DIMM_A1\0P0_Node0\0Samsung\0XXXXXXXXXXXXX\0XXXXXXX\0M321R8GA0BB0-CQKZJ\0" in clean


def test_free_text_of_vendors() -> None:
    """OEM strings often contain service tags, so none of their text remains."""
    clean = without_serials(structure(11, b"\2", b"Dell System", b"ABC1234") + structure(221, b"SECRET", b"XYZ") + END)
    assert not any(text in clean for text in (b"Dell", b"ABC1234", b"SECRET", b"XYZ"))


def test_further_tables_are_unchanged() -> None:
    """A table without secrets is unchanged."""
    bios = structure(0, bytes((1, 2, 0, 0, 3, 0)), b"American Megatrends", b"1.4", b"03/01/2024")
    assert without_serials(bios + END) == bios + END


def test_unreadable_tables_are_removed() -> None:
    """Nothing after the cut in a truncated table remains, since its content is unknown."""
    assert without_serials(SYSTEM[:-2]) == bytes(len(SYSTEM) - 2)
    assert without_serials(b"\x01\x02\0\0S123456\0\0") == bytes(13)


@given(st.binary(max_size=200))
def test_any_bytes(tables: bytes) -> None:
    """For any bytes, the length does not change, and a second pass changes nothing."""
    clean = without_serials(tables)
    assert len(clean) == len(tables)
    assert without_serials(clean) == clean


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 4, 17, 127, 200]), st.binary(max_size=40)), max_size=5))
def test_any_structures(parts: list[tuple[int, bytes]]) -> None:
    """Well-formed tables retain their types and lengths."""
    tables = b"".join(structure(kind, formatted, b"one", b"two", b"three") for kind, formatted in parts)
    assert len(without_serials(tables)) == len(tables)
