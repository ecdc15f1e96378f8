"""The resources of a zone that each pod holds, in a few bytes.

From them, the scheduler computes what the end of some pods frees.

Each zone has one text of entries separated by ";". An entry lists the pods that hold equal amounts, and these amounts:

    k3Zp:4-7,36-39&M.vv:8-11,40-43|memory=4Gi|nvidia.com/gpu=1;-:|memory@0+1=0

The parts of an entry are separated by "|". The first part lists "key:CPU list" of each pod, separated by "&". Each
other part is an amount of one resource, which each of these pods holds. If an amount belongs to several zones together,
"@" and the zones follow. Such an amount is in the text of the lowest of its zones. The text of the node itself lists
the devices of no zone. A key has 24 bits of the pod's hash in pod fingerprints. In rare cases, two pods of a node share
a key: the holdings of both are then unknown. A pod takes about 8 bytes beside the amounts. The texts of a node have at
most as many pods as it has exclusive CPUs and devices.

The key "-" stands for resources that belong to no listed pod: those of finished init containers and of excluded pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.k8s.quantity import format_binary_quantity, quantity_value
from zonewise_common.nrt.attributes import read_zones, write_shared_resource
from zonewise_common.nrt.podfingerprint import pod_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SYMBOLS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_."
_SYMBOLS_OF_KEY = 4

UNATTRIBUTED = "-"
"""The key of resources that belong to no listed pod."""

NODE = -1
"""The id for the text of the node itself."""


class Holdings(NamedTuple):
    """The resources that one pod holds."""

    cpus: int = 0
    """Exclusive CPUs as bits."""
    amounts: tuple[tuple[str, int, int], ...] = ()
    """(resource, zones as bits, amount), sorted: bytes of memory, counts of devices. Zones are 0 if no zone is
    known."""


def holdings_key(namespace: str, name: str) -> str:
    """Return the key of a pod."""
    number = pod_hash(namespace, name)
    return "".join(_SYMBOLS[number >> 6 * digit & 63] for digit in range(_SYMBOLS_OF_KEY))


def write_holdings(holdings: Iterable[tuple[str, Holdings]], zone_cpus: Mapping[int, CpuSet]) -> dict[int, str]:
    """Return the text of each zone, and of the node under NODE. `zone_cpus` has every zone with its CPUs.

    Equal holdings give equal texts, whatever their order.
    """
    entries: dict[int, dict[str, list[str]]] = {zone: {} for zone in (*zone_cpus, NODE)}
    for key, held in holdings:
        parts: dict[int, list[str]] = {}
        for resource, zones, amount in sorted(held.amounts):
            zone = (zones & -zones).bit_length() - 1
            several = zones & (zones - 1)
            name = write_shared_resource(resource, CpuSet.from_bits(zones)) if several else resource
            parts.setdefault(zone, []).append(f"|{name}={format_binary_quantity(amount)}")
        for zone, by_amounts in entries.items():
            bits = held.cpus & zone_cpus[zone].bits if zone != NODE else 0
            if bits or zone in parts:
                pods = by_amounts.setdefault("".join(parts.get(zone, ())), [])
                pods.append(f"{key}:{CpuSet.from_bits(bits)}")
    return {
        zone: ";".join(sorted("&".join(sorted(pods)) + amounts for amounts, pods in by_amounts.items()))
        for zone, by_amounts in entries.items()
    }


def read_holdings(texts: Iterable[tuple[int, str]]) -> dict[str, Holdings]:
    """Return the holdings by key, from the texts of zones, each with its id or NODE.

    A key that occurs twice in one text belongs to two pods, so it is omitted. Raises ValueError, naming the part, if a
    text is damaged.
    """
    cpus: dict[str, int] = {}
    amounts: dict[str, list[tuple[str, int, int]]] = {}
    ambiguous: set[str] = set()
    for zone, text in texts:
        keys: set[str] = set()
        for entry in text.split(";") if text else ():
            pods, *parts = entry.split("|")
            held = [_read_amount(part, zone) for part in parts]
            for pod in pods.split("&"):
                key, separator, cpu_list = pod.partition(":")
                if not separator or not key:
                    raise ValueError(f"not the holdings of a pod: {pod[:80]!r}")
                if key in keys and key != UNATTRIBUTED:
                    ambiguous.add(key)
                keys.add(key)
                cpus[key] = cpus.get(key, 0) | CpuSet.parse_list(cpu_list).bits
                amounts.setdefault(key, []).extend(held)
    return {key: Holdings(bits, tuple(sorted(amounts[key]))) for key, bits in cpus.items() if key not in ambiguous}


def _read_amount(part: str, zone: int) -> tuple[str, int, int]:
    name, separator, amount = part.rpartition("=")
    resource, _, zones = name.partition("@")
    if not separator or not resource:
        raise ValueError(f"not an amount of a resource: {part[:80]!r}")
    single = 0 if zone == NODE else 1 << zone
    return resource, read_zones(zones, "+") if zones else single, quantity_value(amount)
