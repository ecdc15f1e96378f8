"""The arrangement of boxes in the vector picture: chooses the column counts that leave little empty space."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from zonewise.render.boxes import Box, Cores
from zonewise.render.cards import (
    GAP,
    NARROW,
    SIZE,
    SMALL,
    TEXT_WIDTH,
    cache_line,
    core_block,
    core_squares,
    device_columns,
    memory_card,
)
from zonewise.render.phrases import box_title, core_count, cpus_text
from zonewise.render.shapes import Node, best_shaped, in_grid, in_row, padded, paragraph, stacked, text_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise.render.boxes import Memory, Picture

_PAD, _CACHE_PAD, _MEMBER_PAD = 10.0, 7.0, 5.0
_RATIO = 1.5  # desired ratio of width to height: that of a page and of most screens
_WIDEST = 1500.0  # the text of wider pictures is too small when they are fitted to a page
_MOST_MEMBERS = 32  # maximum number of L3 groups or clusters drawn one by one
_MOST_COLUMNS = 4


class _Columns(NamedTuple):
    """Column counts, the same for the whole machine, so that equal parts appear in equal positions."""

    devices: int
    """Columns of devices beside a zone."""
    caches: int
    """Columns of caches and clusters in a box."""
    inner: int
    """Columns of other boxes in a box."""
    outer: int
    """Columns of the outermost boxes."""


def best_arrangement(picture: Picture, least: float) -> Node:
    """Return the boxes of a picture, at least `least` wide, with little empty space and a moderate width and height."""
    outer = _boxes(picture.boxes)
    devices = max([len(picture.devices), *(_most_devices(box) for box in outer)])
    caches = max((_most_children(box, caches=True) for box in outer), default=1)
    inner = max((_most_children(box, caches=False) for box in outer), default=1)
    most = [max(min(count, _MOST_COLUMNS), 1) for count in (devices, caches, inner, len(outer))]
    columns = _Columns(1, 1, 1, 1)
    best = _Drawer(columns).body(picture, least)
    # boxes and nested boxes together, then the others separately: trying all combinations takes seconds
    for fields in (("outer", "inner"), ("caches",), ("devices",), ("outer", "inner")):
        ranges = [range(1, most[_Columns._fields.index(field)] + 1) for field in fields]
        for numbers in product(*ranges):
            candidate = columns._replace(**dict(zip(fields, numbers, strict=True)))
            body = best if candidate == columns else _Drawer(candidate).body(picture, least)
            if _cost(body) < _cost(best):
                columns, best = candidate, body
    return best


def _cost(node: Node) -> float:
    """Return the cost of a picture: its area, times penalties for a shape unlike a page and for excess width."""
    shape = node.width / max(node.height, 1) / _RATIO
    return node.width * node.height * max(shape, 1 / max(shape, 1e-6)) * max(node.width / _WIDEST, 1)


def _boxes(children: Sequence[Box | Cores]) -> list[Box]:
    return [child for child in children if isinstance(child, Box)]


def _most_children(box: Box, *, caches: bool) -> int:
    """Return the largest number of caches, or of other boxes, in a box."""
    inner = _boxes(box.children)
    own = sum((rect_kind(child) == "cache") == caches for child in inner)
    return max([own, *(_most_children(child, caches=caches) for child in inner)])


def _most_devices(box: Box) -> int:
    return max([len(box.devices), *(_most_devices(child) for child in _boxes(box.children))])


def rect_kind(box: Box) -> str:
    """Return the style of a box."""
    return {"zone": "zone", "cache": "cache", "cluster": "cache"}.get(box.kind, "package")


class _Drawer:
    """Draws boxes in one arrangement; caches the natural width of each box, since every level needs it."""

    def __init__(self, columns: _Columns) -> None:
        self._columns = columns
        self._natural: dict[int, float] = {}

    def body(self, picture: Picture, least: float) -> Node:
        """Return a node with all boxes of a picture."""
        parts = [self._children(picture.boxes, 1, self._columns.outer, TEXT_WIDTH, least)]
        parts += _memory_cards(picture.memories)
        if picture.devices:
            title = text_node("Devices of unknown zone", SIZE, "bold")
            devices = device_columns(picture.devices, self._columns.devices)
            parts.append(padded(stacked([title, devices], 4), _PAD, "unknown"))
        return stacked(parts, GAP)

    def _box(self, box: Box, least: float) -> Node:
        """Return a box at least `least` wide: title and details above, then cores and inner boxes beside devices."""
        title = _title(box)
        details = paragraph(box.details, max(title.width, TEXT_WIDTH), SMALL, "dim")
        width = NARROW if box.devices else TEXT_WIDTH
        padding = _CACHE_PAD if rect_kind(box) == "cache" else _PAD
        inner = 0 if box.devices else max(least - 2 * padding, title.width)
        caches = any(rect_kind(child) == "cache" for child in _boxes(box.children))
        abreast = self._columns.caches if caches else self._columns.inner
        memories = _memory_cards(box.memories)
        inner = max([inner, *(card.width for card in memories)])
        boxes = self._children(box.children, len(box.members), abreast, width, inner)
        content = stacked([boxes, *memories], GAP)
        if box.devices:
            content = in_row([content, device_columns(box.devices, self._columns.devices)], 2 * GAP)
        node = padded(stacked([title, details, content], 4), padding, rect_kind(box))
        return node._replace(width=max(node.width, least))

    def _children(
        self, children: Sequence[Box | Cores], parents: int, abreast: int, width: float, least: float
    ) -> Node:
        """Return the content of a box: cores below one another, then boxes in a grid at least `least` wide."""
        cores = [core_block(child, parents, width) for child in children if isinstance(child, Cores)]
        boxes = _boxes(children)
        if not boxes:
            return stacked(cores, GAP)
        abreast = min(abreast, len(boxes))
        cell = max(*(self._width(box, width) for box in boxes), (least + GAP) / abreast - GAP)
        return stacked([*cores, in_grid([self._drawn(box, width, cell) for box in boxes], abreast, GAP)], GAP)

    def _width(self, box: Box, width: float) -> float:
        if id(box) not in self._natural:
            self._natural[id(box)] = self._drawn(box, width, 0).width
        return self._natural[id(box)]

    def _drawn(self, box: Box, width: float, least: float) -> Node:
        return _cache_group(box, width, least) or self._box(box, least)


def _memory_cards(memories: Sequence[Memory]) -> list[Node]:
    cards = [memory_card(memory) for memory in memories]
    width = max((card.width for card in cards), default=0)
    return [card._replace(width=width) for card in cards]


def _title(box: Box) -> Node:
    names, headline = box_title(box)
    bold = text_node(" · ".join(names), SIZE, "bold")
    return in_row([bold, text_node(" · ".join(headline), SIZE)], GAP)


def _cache_group(box: Box, width: float, least: float) -> Node | None:
    """Return equal caches or clusters of equal cores, each with its own squares; None for any other box."""
    only = box.children[0] if len(box.children) == 1 else None
    if rect_kind(box) != "cache" or not isinstance(only, Cores) or len(box.members) > _MOST_MEMBERS or box.devices:
        return None
    count = len(only.cores) // len(box.members)
    starts = range(0, len(only.cores), count)
    members = [
        _member(only._replace(cores=only.cores[start : start + count]), width, several=len(box.members) > 1)
        for start in starts
    ]
    grids = [in_grid(members, columns, 5) for columns in range(1, len(members) + 1)]
    fitting = [grid for grid in grids if grid.width <= least - 2 * _CACHE_PAD]
    grid = min(fitting, key=lambda grid: grid.height) if fitting else best_shaped(grids, _RATIO)
    each = " each" if len(box.members) > 1 else ""
    head = paragraph([core_count(only, len(box.members)) + each, *only.state], TEXT_WIDTH, SIZE)
    details = paragraph(box.details, TEXT_WIDTH, SMALL, "dim")
    node = padded(stacked([_title(box), details, head, grid, cache_line(only, width)], 3), _CACHE_PAD, "cache")
    return node._replace(width=max(node.width, least))


def _member(cores: Cores, width: float, *, several: bool) -> Node:
    name = text_node(cpus_text(cores.cpus), SMALL, "dim")
    body = stacked([name, core_squares(cores.cores, cores, width)], 2)
    return padded(body, _MEMBER_PAD, "member") if several else body
