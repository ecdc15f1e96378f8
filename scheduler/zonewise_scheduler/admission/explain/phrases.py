"""Amounts and sets of zones in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.phrases import of_number
from zonewise_scheduler.admission.resource_names import CPU, EPHEMERAL_STORAGE, is_memory
from zonewise_scheduler.admission.topologymanager.bitmask import members

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GIB = 1 << 30
_MOST_LISTED_ZONES = 4
"""Maximum number of zones that are listed; for more zones, only the largest amount is given in the text."""


def is_bytes(resource: str) -> bool:
    """Return whether a resource is counted in bytes."""
    return resource == EPHEMERAL_STORAGE or is_memory(resource)


def amount(resource: str, size: int) -> str:
    """Return "6 CPUs", "4 GiB of memory", "2 nvidia.com/gpu"."""
    if resource == CPU:
        return f"{size} {of_number(size, 'CPU', 'CPUs')}"
    return f"{gib(size)} of {resource}" if is_bytes(resource) else f"{size} {resource}"


def count(resource: str, size: int) -> str:
    """Return "6", "4 GiB"."""
    return gib(size, up=False) if is_bytes(resource) else str(size)


def milli_amount(resource: str, size: int) -> str:
    """Return an amount whose CPUs are in thousandths: "6 CPUs", "0.5 CPUs", "4 GiB of memory"."""
    return f"{in_cpus(size)} CPUs" if resource == CPU else amount(resource, size)


def milli_count(resource: str, size: int) -> str:
    """Return a count whose CPUs are in thousandths: "6", "0.5", "4 GiB"."""
    return in_cpus(size) if resource == CPU else count(resource, size)


def are_free(many: int) -> str:
    """Return "1 is free", "4 are free"."""
    return f"{many} {of_number(many, 'is', 'are')} free"


def gib(size: int, *, up: bool = True) -> str:
    """Return an amount of bytes in GiB, to the hundredth: requests are rounded up, free amounts down.

    An amount below a hundredth of a GiB is in bytes: in most cases its unit was forgotten.
    """
    if 0 < size * 100 < _GIB:
        return f"{size} {of_number(size, 'byte', 'bytes')}"
    hundredths = -(-size * 100 // _GIB) if up else size * 100 // _GIB
    return f"{_decimal(hundredths, 2)} GiB"


def in_cpus(size: int) -> str:
    """Return an amount of milli-CPU in CPUs: "6", "0.5"."""
    return _decimal(size, 3)


def _decimal(size: int, places: int) -> str:
    """Return `size`, shifted right by `places` decimal places, without trailing zeros."""
    return f"{size / 10**places:.{places}f}".rstrip("0").rstrip(".")


def listed(words: Sequence[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def zones_in_words(zones: int) -> str:
    """Return "zone 1" or "zones 0 and 1"."""
    ids = [str(zone) for zone in members(zones)]
    return f"{of_number(len(ids), 'zone', 'zones')} {listed(ids)}"


def zone_count(width: int) -> str:
    """Return "one zone", "2 zones"."""
    return "one zone" if width == 1 else f"{width} zones"


def free_in_words(resource: str, free: Mapping[int, int]) -> str:
    """Return "zone 0 has 4 free, zone 1 has 2", or for many zones the largest free amount of any."""
    if len(free) > _MOST_LISTED_ZONES:
        return f"none of the {len(free)} zones has more than {count(resource, max(free.values()))} free"
    phrases = [f"zone {zone} has {count(resource, size)}" for zone, size in free.items()]
    return ", ".join([f"{phrases[0]} free", *phrases[1:]]) if phrases else "no zone has any"
