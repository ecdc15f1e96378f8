"""Memory modules in the tables of the firmware (SMBIOS): structures of type 17, one for each slot.

System Management BIOS (SMBIOS) Reference Specification, DMTF DSP0134, section 7.18. Serial numbers and asset tags are
not read: they identify property, and no scheduling decision needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.model.host import MemoryModule

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY_DEVICE = 17
_END = 127
_HEADER = 4  # type, length, handle
_LEAST = 0x1B  # SMBIOS 2.3 (1998), the first version with vendor and part names

_FORM_FACTORS = (
    "Other", "Unknown", "SIMM", "SIP", "Chip", "DIP", "ZIP", "Proprietary Card", "DIMM", "TSOP", "Row Of Chips", "RIMM",
    "SODIMM", "SRIMM", "FB-DIMM", "Die", "CAMM",
)  # fmt: skip
"""Names from section 7.18.1, from 1 on."""

_TYPES = (
    "Other", "Unknown", "DRAM", "EDRAM", "VRAM", "SRAM", "RAM", "ROM", "Flash", "EEPROM", "FEPROM", "EPROM", "CDRAM",
    "3DRAM", "SDRAM", "SGRAM", "RDRAM", "DDR", "DDR2", "DDR2 FB-DIMM", None, None, None, "DDR3", "FBD2", "DDR4",
    "LPDDR", "LPDDR2", "LPDDR3", "LPDDR4", "Logical non-volatile device", "HBM", "HBM2", "DDR5", "LPDDR5", "HBM3",
)  # fmt: skip
"""Names from section 7.18.2, from 1 on."""

_KIB, _MIB = 1 << 10, 1 << 20
_IN_KIB = 0x8000
_SEE_EXTENDED = 0x7FFF
_UNKNOWN = 0xFFFF


def structures(table: bytes) -> Iterator[bytes]:
    """Yield the structures of a table, each with its strings; stop where the table deviates from DSP0134."""
    at = 0
    while at + _HEADER <= len(table):
        length = table[at + 1]
        end = table.find(b"\0\0", at + length)
        if length < _HEADER or end < 0 or table[at] == _END:
            return
        yield table[at : end + 2]
        at = end + 2


def memory_module(structure: bytes) -> MemoryModule | None:
    """Return the module of a structure of type 17; None for an empty slot.

    Raise ValueError if the structure has another type or is truncated.
    """
    if len(structure) < _LEAST or structure[0] != MEMORY_DEVICE or structure[1] < _LEAST:
        raise ValueError("is not a memory device in the format of SMBIOS 2.3")
    if structure[1] > len(structure) or not structure.endswith(b"\0\0"):
        raise ValueError("is truncated")
    fixed, strings = structure[: structure[1]], structure[structure[1] :].split(b"\0")
    size = _size(fixed)
    vendor, part = _string(strings, fixed[0x17]), _string(strings, fixed[0x1A])
    # a slot is empty if its size is 0, or if nothing names a module
    if size == 0 or not (vendor or part or _string(strings, fixed[0x18]) or _string(strings, fixed[0x19])):
        return None
    rank = fixed[0x1B] & 0xF if len(fixed) > 0x1B else 0
    return MemoryModule(
        _string(strings, fixed[0x10]),
        size,
        _listed(_TYPES, fixed[0x12]),
        vendor,
        part,
        _speed(fixed, 0x15, 0x54),
        rank or None,
        _string(strings, fixed[0x11]),
        _listed(_FORM_FACTORS, fixed[0x0E]),
        _speed(fixed, 0x20, 0x58),
    )


def _number(fixed: bytes, at: int, length: int) -> int | None:
    """Return an unsigned little-endian number; None if the structure is of an older version and ends before it."""
    return int.from_bytes(fixed[at : at + length], "little") if at + length <= len(fixed) else None


def _size(fixed: bytes) -> int | None:
    """Return the size in bytes; 0 for an empty slot, None if the firmware does not know the size."""
    size = _number(fixed, 0x0C, 2)
    if size is None or size == _UNKNOWN:
        return None
    if size == _SEE_EXTENDED:
        extended = _number(fixed, 0x1C, 4)
        return None if extended is None else (extended & 0x7FFFFFFF) * _MIB
    return (size & ~_IN_KIB) * (_KIB if size & _IN_KIB else _MIB)


def _speed(fixed: bytes, at: int, extended_at: int) -> int | None:
    """Return the speed in MT/s; None if the firmware does not know it."""
    speed = _number(fixed, at, 2)
    if speed == _UNKNOWN:
        speed = (_number(fixed, extended_at, 4) or 0) & 0x7FFFFFFF
    return speed or None


def _listed(names: tuple[str | None, ...], code: int) -> str | None:
    name = names[code - 1] if 1 <= code <= len(names) else None
    return None if name == "Unknown" else name


def _string(strings: list[bytes], number: int) -> str | None:
    """Return the string with a number, counted from 1; None if there is none or it is blank."""
    if not 1 <= number <= len(strings):
        return None
    text = strings[number - 1].decode("ascii", "replace").strip()
    return text if text and text.isprintable() else None
