"""SMBIOS tables without serial numbers, asset tags and vendors' free text.

DSP0134 (System Management BIOS Reference Specification): a structure is a header, a formatted area, and strings. The
header has 4 bytes: type, length, handle. Some bytes of the formatted area are string numbers. Each string ends in a
zero byte, and the list of strings in another one.
"""

from __future__ import annotations

_HEADER = 4
_SYSTEM = 1
_UUID = slice(0x08, 0x18)  # of the system structure, 7.2.1
_END = b"\0\0"

_SECRET_STRINGS = {
    1: (0x07,),  # system: serial number
    2: (0x07, 0x08),  # baseboard: serial number, asset tag
    3: (0x07, 0x08),  # chassis: serial number, asset tag
    4: (0x20, 0x21),  # processor: serial number, asset tag
    17: (0x18, 0x19),  # memory device: serial number, asset tag
    22: (0x07,),  # portable battery: serial number
    39: (0x08, 0x09),  # power supply: serial number, asset tag
}
"""Type -> offsets of the bytes with the numbers of strings to be removed."""

_FREE_TEXT = (11, 12)  # OEM strings, system configuration options: vendors write service tags into them
_FIRST_OEM_TYPE = 128


def without_serials(tables: bytes) -> bytes:
    """Return tables of the same length with X for every secret string; everything after damage becomes zeros."""
    scrubbed = bytearray(tables)
    position = 0
    while position + _HEADER <= len(scrubbed):
        length = scrubbed[position + 1]
        end = tables.find(_END, position + length)
        if length < _HEADER or end < 0:
            break
        _clean(scrubbed, position, position + length, end)
        position = end + len(_END)
    scrubbed[position:] = bytes(len(scrubbed) - position)
    return bytes(scrubbed)


def _clean(scrubbed: bytearray, start: int, strings: int, end: int) -> None:
    kind = scrubbed[start]
    if kind == _SYSTEM and strings - start >= _UUID.stop:
        scrubbed[start + _UUID.start : start + _UUID.stop] = bytes(_UUID.stop - _UUID.start)
    everything = kind in _FREE_TEXT or kind >= _FIRST_OEM_TYPE
    if kind >= _FIRST_OEM_TYPE:
        scrubbed[start + _HEADER : strings] = bytes(strings - start - _HEADER)
    offsets = [offset for offset in _SECRET_STRINGS.get(kind, ()) if start + offset < strings]
    secret = {scrubbed[start + offset] for offset in offsets}
    number, position = 1, strings
    while position < end:
        stop = scrubbed.find(0, position, end)
        stop = end if stop < 0 else stop
        if everything or number in secret:
            scrubbed[position:stop] = b"X" * (stop - position)
        number, position = number + 1, stop + 1
