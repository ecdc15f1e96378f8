"""Iterators over the layout of a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.render.boxes import Box, Bus, Cores, Device
from zonewise.render.layout import layout
from zonewise.render.phrases import label_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise.machine.model.machine import Machine
    from zonewise.render.boxes import Picture


def boxes_in(items: Sequence[Box | Cores]) -> Iterator[Box]:
    """Yield every box, outer boxes before inner ones."""
    for item in items:
        if isinstance(item, Box):
            yield item
            yield from boxes_in(item.children)


def cores_in(items: Sequence[Box | Cores]) -> Iterator[Cores]:
    """Yield every group of cores, the leaves of the layout."""
    for item in items:
        if isinstance(item, Box):
            yield from cores_in(item.children)
        else:
            yield item


def devices_of(items: Sequence[Bus | Device]) -> Iterator[Device]:
    """Yield every device of some buses."""
    for item in items:
        if isinstance(item, Bus):
            yield from devices_of(item.items)
        else:
            yield item


def devices_in(picture: Picture) -> list[Device]:
    """Return every device of a picture."""
    beside = [device for box in boxes_in(picture.boxes) for device in devices_of(box.devices)]
    return beside + list(devices_of(picture.devices))


def named(picture: Picture, name: str) -> Box:
    """Return the first box with a name."""
    return next(box for box in boxes_in(picture.boxes) if name in [label_text(label) for label in box.labels])


def device(machine: Machine, name: str) -> Device:
    """Return the device with a name."""
    return next(one for one in devices_in(layout(machine)) if name in one.names)
