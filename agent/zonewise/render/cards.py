"""Parts of the vector picture: grids of cores, zones without CPUs, and devices below their buses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.render.boxes import Device
from zonewise.render.formatting import format_name_range, format_number_list
from zonewise.render.phrases import caches_text, core_count, cpus_text, device_name, device_text
from zonewise.render.shapes import (
    Lines,
    Node,
    Positioned,
    Text,
    in_row,
    padded,
    paragraph,
    shortened,
    stacked,
    text_width,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise.render.boxes import Bus, Cores, Memory
    from zonewise_common.k8s.cpuset import CpuSet

SIZE, SMALL = 12.0, 10.5
GAP = 8.0
TEXT_WIDTH = 300.0
"""The width beyond which a text is broken or cut."""

NARROW = 190.0
"""The same limit for texts beside devices."""

_CORE, _CORE_GAP = 13.0, 3.0
_MOST_COLUMNS = 16
_MOST_CORES = 512  # squares in one grid of cores; more would be indistinguishable
_CARD_LEAST, _CARD_MOST = 170.0, 280.0  # width
_CARD_TOP, _CARD_LINE = 4.0, 15.5
_STEM, _BRANCH = 5.0, 16.0


# --- cores


def core_block(cores: Cores, parents: int, width: float) -> Node:
    """Return a block for equal cores: count, CPUs, a square for each core with a mark for each thread, and caches."""
    each = " each" if parents > 1 else ""
    head = [core_count(cores, parents) + each, *cores.state]
    width = min(max(width, *(text_width(phrase, SIZE) for phrase in head)), TEXT_WIDTH)
    return stacked(
        [
            paragraph(head, width, SIZE, "bad" if cores.state else ""),
            paragraph(_pieces(cpus_text(cores.cpus)), width, SMALL, "dim", separator=""),
            core_squares(cores.cores, cores, width),
            cache_line(cores, width),
        ],
        3,
    )


def cache_line(cores: Cores, width: float) -> Node:
    """Return the private caches of each core."""
    return paragraph(caches_text(cores), width, SMALL, "dim", separator=", ")


def core_squares(cores: Sequence[CpuSet], alike: Cores, width: float) -> Node:
    """Return a grid of squares, or an empty node if there are too many to tell apart."""
    if len(cores) > _MOST_CORES:
        return Node(0, 0)
    pitch = _CORE + _CORE_GAP
    columns = _columns(len(cores), int((width + _CORE_GAP) / pitch))
    parts = [
        Positioned(i % columns * pitch, i // columns * pitch, _square(cpus, alike)) for i, cpus in enumerate(cores)
    ]
    rows = -(-len(cores) // columns)
    return Node(min(columns, len(cores)) * pitch - _CORE_GAP, rows * pitch - _CORE_GAP, tuple(parts))


def _columns(count: int, most: int) -> int:
    """Return how many squares form a row: a divisor of the count near the maximum, if there is one."""
    most = min(most, _MOST_COLUMNS)
    if count <= most:
        return max(count, 1)
    return next((columns for columns in range(most, most // 2, -1) if count % columns == 0), most)


def _square(cpus: CpuSet, alike: Cores) -> Node:
    count = len(cpus)
    step = _CORE / (count + 1)
    marks = tuple((step * i, 3.5, step * i, _CORE - 3.5) for i in range(1, count + 1))
    kinds = ["core", *([alike.kind] if alike.kind else [])]
    kinds += [word for word in ("offline", "isolated") if word in alike.state]
    kinds += ["denied"] if "not allowed" in alike.state else []
    return Node(_CORE, _CORE, (Lines(marks, "thread"),) if count > 1 else (), " ".join(kinds), cpus_text(cpus))


def _pieces(text: str) -> list[str]:
    """Return the pieces of a CPU list; a line may be broken after each piece."""
    parts = text.split(",")
    return [f"{part}," for part in parts[:-1]] + parts[-1:]


# --- zones without CPUs


def memory_card(memory: Memory) -> Node:
    """Return a card for zones without CPUs."""
    noun = "Zone" if len(memory.zones) == 1 else "Zones"
    body = stacked(
        [
            paragraph(_pieces(f"{noun} {format_number_list(memory.zones)}"), TEXT_WIDTH, SIZE, "bold", separator=""),
            paragraph(["no CPUs", *memory.facts], TEXT_WIDTH, SMALL),
        ],
        0,
    )
    return padded(body, 6, "memory")


# --- devices


def device_columns(items: Sequence[Bus | Device], columns: int) -> Node:
    """Return the devices of a zone below its stem, in this number of columns of similar height."""
    depth = max(_depth(item) for item in items)
    width = min(max([_CARD_LEAST, *(_wanted_width(item) for item in items)]), _CARD_MOST) + depth * _BRANCH
    nodes = [_item_node(item, width) for item in items]
    total = sum(node.height + GAP for node, _ in nodes)
    split: list[list[tuple[Node, float]]] = [[]]
    height = 0.0
    for node, joint in nodes:
        if height and height + node.height / 2 > total / columns and len(split) < columns:
            split.append([])
            height = 0.0
        split[-1].append((node, joint))
        height += node.height + GAP
    return in_row([_hung(part) for part in split], 2 * GAP)


def _depth(item: Bus | Device) -> int:
    """Return how deeply buses are nested."""
    return 0 if isinstance(item, Device) else 1 + max(_depth(inner) for inner in item.items)


def _hung(items: Sequence[tuple[Node, float]]) -> Node:
    """Return items below one another, joined by a stem on the left."""
    node = stacked([item for item, _ in items], GAP)
    tops = [part.y for part in node.parts if isinstance(part, Positioned)]
    joints = [top + joint for top, (_, joint) in zip(tops, items, strict=True)]
    strokes = [(_STEM, y, _BRANCH, y) for y in joints]
    strokes.append((_STEM, 0, _STEM, joints[-1]))
    return Node(node.width + _BRANCH, node.height, (Lines(tuple(strokes), "stem"), Positioned(_BRANCH, 0, node)))


def _item_node(item: Bus | Device, width: float) -> tuple[Node, float]:
    """Return a node for a device, or for a bus with its items, and the height at which its branch meets the node."""
    if isinstance(item, Device):
        card = _card(item, width)
        return card, card.height / 2
    label = paragraph(item.names, width - 12, SMALL)
    head = Node(label.width + 12, label.height + 4, (Positioned(6, 2, label),), "bus")
    hung = _hung([_item_node(inner, width - _BRANCH) for inner in item.items])
    reach = Lines(((_STEM, head.height, _STEM, head.height + 5),), "stem")
    body = Node(hung.width, hung.height, hung.parts)
    node = Node(
        max(head.width, body.width),
        head.height + 5 + body.height,
        (Positioned(0, 0, head), reach, Positioned(0, head.height + 5, body)),
    )
    return node, head.height / 2


def _wanted_width(item: Bus | Device) -> float:
    if not isinstance(item, Device):
        return max(_wanted_width(inner) for inner in item.items)
    first = text_width(device_name(item), SIZE, "bold") + text_width(item.link or "", SMALL)
    second = text_width(device_text(item), SMALL) + text_width(
        format_name_range(item.addresses) if item.addresses else "", SMALL
    )
    return max(first, second) + 34


def _card(device: Device, width: float) -> Node:
    """Return a device's card: name and link, description and address, then notes and warnings."""
    name, what = device_name(device), device_text(device)
    rows = [
        (name, SIZE, "bold", device.link or "", ""),
        (what, SMALL, "", format_name_range(device.addresses) if device.addresses else "", "dim"),
        *((note, SMALL, "dim", "", "") for note in ([", ".join(device.notes)] if device.notes else [])),
        *((f"! {warning}", SMALL, "bad", "", "") for warning in device.warnings),
    ]
    height = _CARD_TOP + _CARD_LINE * len(rows) + 5
    parts: list[Text | Lines | Positioned] = [Lines(((2.5, 3, 2.5, height - 3),), f"stripe-{device.kind}")]
    for i, (text, size, style, end, end_style) in enumerate(rows):
        left, right, base = 12.0, width - 7, _CARD_TOP + _CARD_LINE * i + 12
        beside = text_width(end, SMALL) + 8 if end and text_width(end, SMALL) + 40 <= right - left else 0
        parts.append(Text(left, base, shortened(text, right - left - beside, size, style), size, style))
        if beside:
            parts.append(Text(right, base, end, SMALL, end_style, right=True))
    title = " ".join((name, what, *device.addresses, *device.notes, *device.warnings))
    return Node(width, height, tuple(parts), f"device {device.kind}", title)
