"""The names of ARM cores. A core identifies itself only by numbers: the implementer and part fields of register
MIDR_EL1.

The numbers come from arch/arm64/include/asm/cputype.h of the kernel and the technical reference manuals of the cores.
"""

from __future__ import annotations

from typing import NamedTuple


class Implementer(NamedTuple):
    """The designer of a core, and the meaning of its part numbers."""

    name: str
    parts: dict[int, str]


_ARM = {
    0x920: "ARM920",
    0x926: "ARM926",
    0xB36: "ARM1136",
    0xB56: "ARM1156",
    0xB76: "ARM1176",
    0xC05: "Cortex-A5",
    0xC07: "Cortex-A7",
    0xC08: "Cortex-A8",
    0xC09: "Cortex-A9",
    0xC0D: "Cortex-A12",
    0xC0E: "Cortex-A17",
    0xC0F: "Cortex-A15",
    0xD01: "Cortex-A32",
    0xD02: "Cortex-A34",
    0xD03: "Cortex-A53",
    0xD04: "Cortex-A35",
    0xD05: "Cortex-A55",
    0xD06: "Cortex-A65",
    0xD07: "Cortex-A57",
    0xD08: "Cortex-A72",
    0xD09: "Cortex-A73",
    0xD0A: "Cortex-A75",
    0xD0B: "Cortex-A76",
    0xD0C: "Neoverse-N1",
    0xD0D: "Cortex-A77",
    0xD0E: "Cortex-A76AE",
    0xD15: "Cortex-R82",
    0xD40: "Neoverse-V1",
    0xD41: "Cortex-A78",
    0xD42: "Cortex-A78AE",
    0xD43: "Cortex-A65AE",
    0xD44: "Cortex-X1",
    0xD46: "Cortex-A510",
    0xD47: "Cortex-A710",
    0xD48: "Cortex-X2",
    0xD49: "Neoverse-N2",
    0xD4A: "Neoverse-E1",
    0xD4B: "Cortex-A78C",
    0xD4C: "Cortex-X1C",
    0xD4D: "Cortex-A715",
    0xD4E: "Cortex-X3",
    0xD4F: "Neoverse-V2",
    0xD80: "Cortex-A520",
    0xD81: "Cortex-A720",
    0xD82: "Cortex-X4",
    0xD83: "Neoverse-V3AE",
    0xD84: "Neoverse-V3",
    0xD85: "Cortex-X925",
    0xD87: "Cortex-A725",
    0xD88: "Cortex-A520AE",
    0xD89: "Cortex-A720AE",
    0xD8E: "Neoverse-N3",
    0xD8F: "Cortex-A320",
}

IMPLEMENTERS = {
    0x41: Implementer("ARM", _ARM),
    0x42: Implementer("Broadcom", {0x00F: "Brahma-B15", 0x100: "Brahma-B53", 0x516: "ThunderX2"}),
    0x43: Implementer(
        "Cavium",
        {
            0x0A0: "ThunderX",
            0x0A1: "ThunderX-88XX",
            0x0A2: "ThunderX-81XX",
            0x0A3: "ThunderX-83XX",
            0x0AF: "ThunderX2-99xx",
            0x0B1: "OcteonTX2-98XX",
            0x0B2: "OcteonTX2-96XX",
            0x0B8: "ThunderX3-T110",
        },
    ),
    0x46: Implementer("FUJITSU", {0x001: "A64FX", 0x003: "MONAKA"}),
    0x48: Implementer("HiSilicon", {0xD01: "TaiShan-v110", 0xD02: "TaiShan-v120", 0xD40: "Cortex-A76"}),
    0x4E: Implementer("NVIDIA", {0x000: "Denver", 0x003: "Denver-2", 0x004: "Carmel", 0x010: "Olympus"}),
    0x50: Implementer("APM", {0x000: "X-Gene"}),
    0x51: Implementer(
        "Qualcomm",
        {
            0x001: "Oryon",
            0x06F: "Krait",
            0x201: "Kryo",
            0x800: "Kryo-2XX-Gold",
            0x801: "Kryo-2XX-Silver",
            0x802: "Kryo-3XX-Gold",
            0x803: "Kryo-3XX-Silver",
            0x804: "Kryo-4XX-Gold",
            0x805: "Kryo-4XX-Silver",
            0xC00: "Falkor",
        },
    ),
    0x53: Implementer("Samsung", {0x001: "Exynos-M1", 0x002: "Exynos-M3", 0x003: "Exynos-M4", 0x004: "Exynos-M5"}),
    0x56: Implementer("Marvell", {0x131: "Feroceon-88FR131", 0x581: "PJ4", 0x584: "PJ4B-MP"}),
    0x61: Implementer(
        "Apple",
        {
            0x022: "Icestorm-M1",
            0x023: "Firestorm-M1",
            0x024: "Icestorm-M1-Pro",
            0x025: "Firestorm-M1-Pro",
            0x028: "Icestorm-M1-Max",
            0x029: "Firestorm-M1-Max",
            0x032: "Blizzard-M2",
            0x033: "Avalanche-M2",
        },
    ),
    0x6D: Implementer("Microsoft", {0xD49: "Azure-Cobalt-100"}),
    0x70: Implementer("Phytium", {0x662: "FTC662", 0x663: "FTC663", 0x664: "FTC664", 0x862: "FTC862"}),
    0xC0: Implementer("Ampere", {0xAC3: "Ampere-1", 0xAC4: "Ampere-1a", 0xAC5: "Ampere-1b"}),
}


def core_name(implementer: int, part: int) -> str | None:
    """Return the name of a core; None if the core is not known."""
    known = IMPLEMENTERS.get(implementer)
    return known.parts.get(part) if known else None


def midr_core_name(midr: int) -> str | None:
    """Return the name of a core from its register MIDR_EL1: implementer in bits 31-24, part in bits 15-4."""
    return core_name(midr >> 24 & 0xFF, midr >> 4 & 0xFFF)
