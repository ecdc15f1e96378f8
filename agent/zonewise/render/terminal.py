"""The picture of a machine as text for a terminal with at least 40 columns, with or without colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.render.boxes import Box, Cores
from zonewise.render.canvas import (
    ROUNDED,
    SQUARE,
    beside,
    column_width,
    frame_block,
    joined,
    line_width,
    pad_height,
    paint,
    wrap,
)
from zonewise.render.device_table import DeviceTable
from zonewise.render.layout import layout
from zonewise.render.phrases import box_title, core_phrases, memory_phrases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise.machine.model.machine import Machine
    from zonewise.render.boxes import Memory, Picture
    from zonewise.render.canvas import Line, Span

NARROWEST = 40
"""Minimum number of columns for a layout; a smaller width counts as this one."""

_GAP = 1
_EDGES = 4  # the frame and one blank on either side
_LONGEST_TITLE = 34  # columns that a title may request; a longer one is cut if nothing else needs the width


def render_terminal(machine: Machine, width: int, *, colour: bool, unicode: bool = True) -> str:
    """Return the picture in lines of at most `width` columns, without a final newline.

    Colours do not change the text. Without `unicode`, the picture is drawn in ASCII.
    """
    lines = _picture(layout(machine), max(width, NARROWEST))
    return paint(lines, colour=colour, unicode=unicode)


def _picture(picture: Picture, width: int) -> list[Line]:
    lines = wrap([("title", text) for text in picture.title], width, separator=" · ")
    for facts in picture.facts:
        lines += wrap([("", fact) for fact in facts], width, separator=" · ")
    lines.append(())
    widest = max((_natural_width(box) for box in picture.boxes if isinstance(box, Box)), default=width)
    lines += _children(picture.boxes, width, 1, widest)
    lines += _memory_lines(picture.memories, width)
    if picture.devices:
        table = DeviceTable(picture.devices)
        title = (("package", "Devices of unknown zone"),)
        wide = min(width, max(table.natural, line_width(title) + 2) + _EDGES)
        lines += frame_block(title, table.lines(wide - _EDGES), wide, ROUNDED)
    if picture.distances:
        lines += [(), *_distance_lines(picture, width)]
    if picture.notes:
        lines += [(), *(line for note in picture.notes for line in wrap([("", note)], width))]
    return lines


def _distance_lines(picture: Picture, width: int) -> list[Line]:
    values = [zone for zone, _ in picture.distances]
    cell = max(len(str(value)) for _, row in picture.distances for value in (*row, *values)) + 2
    title = "Distances"
    if len(title) + cell * len(values) > width:
        return []
    head: Line = (("title", title), ("zone", "".join(f"{zone:>{cell}}" for zone in values)))
    rows = [
        (("zone", f"{f'Zone {zone}':<{len(title)}}"), ("", "".join(f"{'?' if v is None else v:>{cell}}" for v in row)))
        for zone, row in picture.distances
    ]
    return [head, *rows]


# --- boxes


def _box(box: Box, width: int) -> list[Line]:
    """Return a box of `width` columns."""
    inner = width - _EDGES
    body = wrap([("cache" if text.startswith("L") else "", text) for text in box.details], inner)
    body += _children(box.children, inner, len(box.members))
    body += _memory_lines(box.memories, inner)
    if box.devices:
        body += DeviceTable(box.devices).lines(inner)
    return frame_block(_title(box), body, width, SQUARE if box.kind in ("zone", "cache", "cluster") else ROUNDED)


def _title(box: Box) -> Line:
    names, headline = box_title(box)
    styles = [_style(label.noun) for label in box.labels] or [_style(box.kind)]
    spans = [*zip(styles, names, strict=True), *(("", text) for text in headline)]
    return joined([(span,) for span in spans], " · ")


def _style(noun: str) -> str:
    return {"Zone": "zone", "Package": "package", "cache": "cache", "cluster": "cache"}.get(noun, "title")


def _memory_lines(memories: Sequence[Memory], width: int) -> list[Line]:
    return [line for memory in memories for line in wrap(memory_phrases(memory), width)]


def _children(children: Sequence[Box | Cores], width: int, parents: int, widest: int = 0) -> list[Line]:
    """Return the content of a box: cores as lines, boxes in a grid; `widest` limits each box if set."""
    lines: list[Line] = []
    row: list[Box] = []
    for child in children:
        phrases = _in_phrases(child, parents)
        if phrases:
            lines += _grid(row, width, widest) + wrap(phrases, width)
            row = []
        elif isinstance(child, Box):
            row.append(child)
    return lines + _grid(row, width, widest)


def _in_phrases(child: Box | Cores, parents: int) -> list[Span]:
    """Return phrases for cores, or for a cache or cluster that contains only equal cores; none for other boxes."""
    if isinstance(child, Cores):
        return list(core_phrases(child, parents))
    if child.kind not in ("cache", "cluster") or len(child.children) != 1 or child.devices or child.memories:
        return []
    only = child.children[0]
    if isinstance(only, Box):
        return []
    return [*_title(child), *(("cache", text) for text in child.details), *core_phrases(only, len(child.members))]


def _grid(boxes: Sequence[Box], width: int, widest: int) -> list[Line]:
    """Return boxes side by side, in as many columns as their minimum widths permit."""
    if not boxes:
        return []
    fitting = max(1, min(len(boxes), (width + _GAP) // (max(_least_width(box) for box in boxes) + _GAP)))
    columns = -(-len(boxes) // -(-len(boxes) // fitting))
    whole = width if not widest else min(width, columns * (widest + _GAP) - _GAP)
    each, rest = divmod(whole + _GAP, columns)
    if widest:
        rest = 0  # the outermost boxes have one width, inner ones fill theirs
    widths = [each - _GAP + (i < rest) for i in range(columns)]
    lines: list[Line] = []
    for start in range(0, len(boxes), columns):
        row = [_box(box, wide) for box, wide in zip(boxes[start : start + columns], widths, strict=False)]
        height = max(len(block) for block in row)
        lines += beside([pad_height(block, height) for block in row], widths, _GAP)
    return lines


# --- widths


def _least_width(box: Box) -> int:
    """Return the minimum number of columns in which a box is easy to read."""
    parts = [min(line_width(_title(box)), _LONGEST_TITLE) + 2]
    parts += [DeviceTable(box.devices).least] if box.devices else []
    for child in box.children:
        phrases = _in_phrases(child, len(box.members))
        parts.append(_least_width(child) if isinstance(child, Box) and not phrases else _widest(phrases))
    return max(parts) + _EDGES


def _natural_width(box: Box) -> int:
    """Return the number of columns in which everything in a box fits on one line."""
    parts = [line_width(_title(box)) + 2, sum(column_width(text) + 2 for text in box.details) - 2]
    parts += [DeviceTable(box.devices).natural] if box.devices else []
    parts += [_phrases_width(memory_phrases(memory)) for memory in box.memories]
    phrases = [_in_phrases(child, len(box.members)) for child in box.children]
    parts += [_phrases_width(child_phrases) for child_phrases in phrases]
    boxes = [child for child, own in zip(box.children, phrases, strict=True) if isinstance(child, Box) and not own]
    if boxes:
        parts.append((max(_natural_width(child) for child in boxes) + _GAP) * len(boxes) - _GAP)
    return max(parts) + _EDGES


def _widest(phrases: Iterable[Span]) -> int:
    return min(max(column_width(text) for _, text in phrases), _LONGEST_TITLE)


def _phrases_width(phrases: Iterable[Span]) -> int:
    return sum(column_width(text) + 2 for _, text in phrases) - 2
