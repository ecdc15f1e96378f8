"""Identifiers of machines and people in captured text, and one stand-in for each of them.

Stand-ins are numbered in the order of the originals, so a list that was sorted by an identifier remains sorted. Derived
addresses remain derived: a GUID from a MAC address, a GID from a GUID.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEX = "0-9a-fA-F"
_GID = re.compile(rf"(?<![{_HEX}:])(?:[{_HEX}]{{4}}:){{7}}[{_HEX}]{{4}}(?![{_HEX}:])")
_GUID = re.compile(rf"(?<![{_HEX}:])(?:[{_HEX}]{{4}}:){{3}}[{_HEX}]{{4}}(?![{_HEX}:])")
_HARDWARE = re.compile(rf"(?<![{_HEX}:])(?:[{_HEX}]{{2}}:){{5,31}}[{_HEX}]{{2}}(?![{_HEX}:])")
_UUID = re.compile(rf"[{_HEX}]{{8}}([-_])(?:[{_HEX}]{{4}}\1){{3}}[{_HEX}]{{12}}(?![{_HEX}])")
_LONG = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{32,64}(?![0-9a-zA-Z])")
"""Ids of containers, machines and boots, written without dashes."""

_PACKED = re.compile(rf"(?<![{_HEX}])(?:[{_HEX}]{{12}}|[{_HEX}]{{16}})(?![{_HEX}])")
"""A MAC address or a GUID without colons, as in the name enx0242ac110002."""

_MAC_DIGITS, _GUID_DIGITS, _GID_DIGITS, _INFINIBAND_DIGITS = 12, 16, 32, 40
_LINK_LOCAL = "fe80" + "0" * 12
_MAPPED_IPV4 = "0" * 20 + "ffff"  # RFC 4291 2.5.5.2, in GIDs of RoCE
_FIRST_FAKE_IPV4 = (198 << 24) + (18 << 16)  # RFC 2544: addresses for measurements, 198.18.0.0/15
_FAKE_PREFIX = "20010db8"  # RFC 3849: addresses for documentation
_MIDDLES = ("fffe", "0300")
"""Digits that make a GUID from a MAC address: those of EUI-64, and those of Mellanox adapters."""


class Identifiers:
    """Maps each identifier of a capture to its stand-in."""

    def __init__(self, texts: Iterable[str], words: Iterable[str] = ()) -> None:
        """Scan every text of the capture; `words` are whole identifiers (serial numbers, hostnames)."""
        identifier_words = _IdentifierWords()
        for text in texts:
            identifier_words.add(text)
        macs = sorted(identifier_words.macs)
        self._macs = {mac: f"02{number:010x}" for number, mac in enumerate(macs, start=1)}
        self._guids = {
            guid: self._fake_guid(guid, number) for number, guid in enumerate(sorted(identifier_words.guids), start=1)
        }
        prefixes = sorted(identifier_words.prefixes)
        self._prefixes = {prefix: f"{_FAKE_PREFIX}{number:08x}" for number, prefix in enumerate(prefixes, start=1)}
        addresses = sorted(identifier_words.addresses)
        self._addresses = {ip: f"{_FIRST_FAKE_IPV4 + number:08x}" for number, ip in enumerate(addresses, start=1)}
        self._uuids = {
            uuid: f"{0x4000 << 64 | 0x8000 << 48 | n:032x}" for n, uuid in enumerate(sorted(identifier_words.uuids), 1)
        }
        self._longs = {
            text: f"{number:0{len(text)}x}" for number, text in enumerate(sorted(identifier_words.longs), start=1)
        }
        known = (self._macs, self._guids, self._uuids, self._longs)
        self._originals = {digits for kind in known for digits in kind}
        self._stand_ins = {fake for kind in (*known, self._addresses) for fake in kind.values()}
        self._words = {word: f"removed-{number}" for number, word in enumerate(sorted(set(words)), start=1)}
        self._word = any_word(self._words)

    def replaced(self, text: str) -> str:
        """Return text with every identifier replaced."""
        text = _UUID.sub(self._uuid, text)
        text = _LONG.sub(self._long, text)
        text = _GID.sub(self._gid, text)
        text = _GUID.sub(self._guid, text)
        text = _HARDWARE.sub(self._hardware, text)
        text = _PACKED.sub(self._packed, text)
        return self._word.sub(self._named, text)

    def left_in(self, text: str) -> str | None:
        """Return an original identifier that is still in a text, in any of its forms; None if there is none."""
        for pattern in (_UUID, _LONG, _GID, _GUID, _HARDWARE, _PACKED):
            for match in pattern.finditer(text):
                if self._is_original(_digits(match[0])) and (pattern is not _PACKED or _is_own(match[0])):
                    return match[0]
        found = self._word.search(text)
        return found[0] if found else None

    def _is_original(self, digits: str) -> bool:
        if digits.startswith(_MAPPED_IPV4):
            return digits[24:] in self._addresses and digits[24:] not in self._stand_ins
        parts = (digits, digits[-16:]) if len(digits) in (_GID_DIGITS, _INFINIBAND_DIGITS) else (digits,)
        return any(part in self._originals and part not in self._stand_ins for part in parts)

    # --- the stand-ins of each kind

    def _fake_guid(self, guid: str, number: int) -> str:
        for middle in _MIDDLES:
            for flipped in (guid, f"{int(guid[:2], 16) ^ 2:02x}{guid[2:]}"):
                mac = flipped[:6] + flipped[10:]
                if guid[6:10] == middle and mac in self._macs:
                    fake = self._macs[mac]
                    first = fake[:2] if flipped == guid else f"{int(fake[:2], 16) ^ 2:02x}"
                    return first + fake[2:6] + middle + fake[6:]
        return f"0200{number:012x}"

    def _uuid(self, match: re.Match[str]) -> str:
        fake = self._uuids.get(_digits(match[0]), _digits(match[0]))
        fake = fake.upper() if match[0].upper() == match[0] else fake
        return match[1].join((fake[:8], fake[8:12], fake[12:16], fake[16:20], fake[20:]))

    def _long(self, match: re.Match[str]) -> str:
        return self._longs.get(match[0], match[0])

    def _named(self, match: re.Match[str]) -> str:
        return self._words[match[0]]

    def _guid(self, match: re.Match[str]) -> str:
        digits = _digits(match[0])
        return _grouped(self._guids.get(digits, digits), 4)

    def _gid(self, match: re.Match[str]) -> str:
        digits = _digits(match[0])
        if digits.startswith(_MAPPED_IPV4):
            return _grouped(_MAPPED_IPV4 + self._addresses[digits[24:]], 4)
        high, low = digits[:16], digits[16:]
        return _grouped(self._prefixes.get(high, high) + self._guids.get(low, low), 4)

    def _hardware(self, match: re.Match[str]) -> str:
        digits = _digits(match[0])
        if len(digits) == _INFINIBAND_DIGITS:  # queue pair number, GID
            fake = "00000000" + _LINK_LOCAL + self._guids.get(digits[-16:], digits[-16:])
        elif len(digits) == _GUID_DIGITS:
            fake = self._guids.get(digits, digits)
        elif len(digits) == _MAC_DIGITS:
            fake = self._macs.get(digits, digits)
        else:
            fake = "0" * len(digits)
        return _grouped(fake, 2)

    def _packed(self, match: re.Match[str]) -> str:
        digits = match[0].lower()
        if not _is_own(digits):
            return match[0]
        return self._macs.get(digits) or self._guids.get(digits) or match[0]


class _IdentifierWords:
    """The identifiers in the texts seen so far, as lower-case digits; all zeros and all ones are left out."""

    def __init__(self) -> None:
        self.macs: set[str] = set()
        self.guids: set[str] = set()
        self.prefixes: set[str] = set()
        self.addresses: set[str] = set()
        self.uuids: set[str] = set()
        self.longs: set[str] = set()

    def add(self, text: str) -> None:
        self.uuids.update(filter(_identifies, (_digits(match[0]) for match in _UUID.finditer(text))))
        self.longs.update(filter(_identifies, _LONG.findall(text)))
        self.guids.update(filter(_identifies, map(_digits, _GUID.findall(text))))
        for gid in map(_digits, _GID.findall(text)):
            self._add_gid(gid)
        for digits in map(_digits, _HARDWARE.findall(text)):
            if len(digits) == _MAC_DIGITS:
                self.macs.update(filter(_identifies, [digits]))
            elif len(digits) in (_GUID_DIGITS, _INFINIBAND_DIGITS):
                self.guids.update(filter(_identifies, [digits[-16:]]))

    def _add_gid(self, gid: str) -> None:
        if gid.startswith(_MAPPED_IPV4):
            self.addresses.add(gid[24:])
            return
        self.guids.update(filter(_identifies, [gid[16:]]))
        if gid[:16] != _LINK_LOCAL:
            self.prefixes.update(filter(_identifies, [gid[:16]]))


def _digits(text: str) -> str:
    return re.sub(r"[-_:]", "", text).lower()


def _identifies(digits: str) -> bool:
    return bool(digits.strip("0")) and bool(digits.strip("f"))


def _is_own(digits: str) -> bool:
    """Return whether digits without colons are certainly an address: a small number is not, although it may
    be a GUID.
    """
    return digits[:6] != "000000"


def _grouped(digits: str, length: int) -> str:
    return ":".join(digits[start : start + length] for start in range(0, len(digits), length))


def any_word(words: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of whole words, longest first; without words, a pattern that never matches."""
    ordered = sorted(words, key=lambda word: (-len(word), word))
    choice = "|".join(map(re.escape, ordered)) if ordered else r"(?!)"
    return re.compile(rf"(?<![0-9A-Za-z])(?:{choice})(?![0-9A-Za-z])")
