"""Groups devices below their shared host bridges and switches; a bridge with a single device below it is omitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.render.boxes import Bus, Device

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise.render.devices import LocatedDevice

_KINDS = ("gpu", "accelerator", "network", "storage", "memory")
"""The order of neighbouring devices, by kind."""

_FOLDED_FROM = {"gpu": 9}
_DEFAULT_FOLDED_FROM = 4
"""More than three equal devices share one line. GPUs have a higher threshold, since people look for them by number."""


class _Bridge(NamedTuple):
    """A bridge during construction of the tree, with the bridges and the devices directly below it."""

    bridges: dict[str, _Bridge]
    devices: list[LocatedDevice]


def group_by_bus(devices: Iterable[LocatedDevice]) -> tuple[Bus | Device, ...]:
    """Return devices grouped by their shared bridges, in the given order; equal neighbours are folded."""
    roots: dict[str, _Bridge] = {}
    for i, located in enumerate(devices):
        root = located.function.root if located.function else None
        bridge = roots.setdefault(root or f"~{i}", _Bridge({}, []))
        for address in located.function.bridges if located.function and root else ():
            bridge = bridge.bridges.setdefault(address, _Bridge({}, []))
        bridge.devices.append(located)
    return _folded([item for name, root in roots.items() for item in _root_items(name, root)])


def _rank(item: Bus | Device) -> int:
    """Return the sort key of an item: the rank of its kind; for a bus, the lowest rank of its items."""
    if isinstance(item, Device):
        return _KINDS.index(item.kind)
    return min((_rank(inner) for inner in item.items), default=len(_KINDS))


def _root_items(name: str, root: _Bridge) -> Sequence[Bus | Device]:
    items = _items(root)
    if len(items) == 1 and isinstance(items[0], Bus):
        return (items[0]._replace(names=(_root_name(name), *items[0].names)),)
    if len(items) == 1:
        return items
    return (Bus((_root_name(name),), items),)


def _root_name(name: str) -> str:
    return f"PCI {name.rpartition('/')[2].removeprefix('pci')}"


def _items(bridge: _Bridge) -> tuple[Bus | Device, ...]:
    below = [item for address, inner in bridge.bridges.items() for item in _bridge_items(address, inner)]
    return _folded([*(located.device for located in bridge.devices), *below])


def _bridge_items(address: str, bridge: _Bridge) -> Sequence[Bus | Device]:
    items = _items(bridge)
    slots = {located.function.address.rpartition(".")[0] for located in bridge.devices if located.function}
    if len(items) == 1 or (not bridge.bridges and len(slots) == 1):
        return items  # a port with one device below it, possibly with several functions
    return (Bus((f"switch {address.removeprefix('0000:')}",), items),)


def _folded(items: Sequence[Bus | Device]) -> tuple[Bus | Device, ...]:
    groups: dict[object, list[Bus | Device]] = {}
    for i, item in enumerate(items):
        key = item._replace(names=(), addresses=()) if isinstance(item, Device) else i
        groups.setdefault(key, []).append(item)
    return tuple(sorted((item for group in groups.values() for item in _merged(group)), key=_rank))


def _merged(items: list[Bus | Device]) -> Sequence[Bus | Device]:
    devices = [item for item in items if isinstance(item, Device)]
    if len(devices) < 2 or len(devices) < _FOLDED_FROM.get(devices[0].kind, _DEFAULT_FOLDED_FROM):
        return items
    return (
        devices[0]._replace(
            names=tuple(name for device in devices for name in device.names),
            addresses=tuple(address for device in devices for address in device.addresses),
        ),
    )
