"""The picture of a machine as SVG: self-contained, readable in print and without colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.render.arrangement import best_arrangement, rect_kind
from zonewise.render.boxes import Cores
from zonewise.render.cards import GAP, SIZE, SMALL
from zonewise.render.layout import layout
from zonewise.render.matrix import matrix_table
from zonewise.render.shapes import (
    FONTS,
    Node,
    Positioned,
    Text,
    escape_xml,
    format_coordinate,
    in_row,
    in_rows,
    padded,
    paragraph,
    stacked,
    svg_elements,
    text_node,
    text_width,
)
from zonewise.render.svg_matrix import matrix_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.machine import Machine
    from zonewise.render.boxes import Box, Picture

_MARGIN = 24.0
_TITLE_SIZE, _FACT_SIZE = 20.0, 12.5
_NARROWEST, _WIDEST_TITLE = 480.0, 900.0

_STYLE = f"""
text {{ font-family: {FONTS}; fill: #1b1f24; }}
.bold {{ font-weight: 600; }}
.dim {{ fill: #59636e; }}
.bad {{ fill: #a83e00; }}
rect {{ stroke-width: 1; }}
rect.page {{ fill: #ffffff; }}
rect.package {{ fill: #f4f5f6; stroke: #8c959f; }}
rect.zone {{ fill: #e9f2fa; stroke: #4c86b5; }}
rect.cache {{ fill: #fdf4dd; stroke: #c49a3a; }}
rect.member {{ fill: #fffbf0; stroke: #dcc48a; }}
rect.core {{ fill: #7d8b99; stroke: #4b5763; }}
rect.performance {{ fill: #4b5f73; }}
rect.efficiency {{ fill: #b3bfca; }}
rect.isolated {{ stroke: #a83e00; stroke-width: 2; }}
rect.denied, rect.offline {{ fill: #ffffff; stroke: #8c959f; stroke-dasharray: 2 1.5; }}
.thread {{ stroke: #ffffff; stroke-width: 1.5; }}
.efficiency + .thread, .denied + .thread, .offline + .thread {{ stroke: #4b5763; }}
rect.unknown {{ fill: #ffffff; stroke: #a83e00; stroke-dasharray: 5 3; }}
rect.memory {{ fill: #e2f3f1; stroke: #3f8f86; }}
rect.device {{ fill: #ffffff; stroke: #8c959f; }}
rect.bus {{ fill: #e6e9ec; stroke: none; }}
.stem {{ stroke: #6e7781; stroke-width: 1.2; fill: none; }}
.stripe-gpu {{ stroke: #2f7d4f; stroke-width: 5; }}
.stripe-network {{ stroke: #1f5fa8; stroke-width: 5; }}
.stripe-storage {{ stroke: #7a7f86; stroke-width: 5; }}
.stripe-accelerator {{ stroke: #8a4f9e; stroke-width: 5; }}
.stripe-memory {{ stroke: #3f8f86; stroke-width: 5; }}
"""


def render_svg(machine: Machine) -> str:
    """Return the picture as an SVG document with the size of its content."""
    picture = layout(machine)
    title = " · ".join(picture.title)
    least = max(min(text_width(title, _TITLE_SIZE, "bold"), _WIDEST_TITLE), _NARROWEST)
    body = best_arrangement(picture, least)
    width = max(body.width, least)
    matrix = matrix_node(matrix_table(machine, everything=False), width)
    document = stacked([_head(picture, width), body, _foot(picture, width), matrix], 16)
    document = padded(document._replace(width=width), _MARGIN, "page")
    wide, high = format_coordinate(document.width), format_coordinate(document.height)
    description = "; ".join(", ".join(facts) for facts in picture.facts)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"',
            ' role="img" aria-labelledby="title description">',
            f'<title id="title">{escape_xml(title)}</title>',
            f'<desc id="description">{escape_xml(description)}</desc>',
            f"<style>{_STYLE}</style>",
            *svg_elements(document),
            "</svg>",
            "",
        )
    )


def _head(picture: Picture, width: float) -> Node:
    lines = [paragraph(facts, width, _FACT_SIZE, "dim") for facts in picture.facts]
    return stacked([paragraph(picture.title, width, _TITLE_SIZE, "bold"), *lines], 2)


def _foot(picture: Picture, width: float) -> Node:
    notes = stacked([paragraph([note], width, SIZE) for note in picture.notes], 2)
    table = _distance_table(picture)
    legend = _legend(picture, width)
    beside = in_row([table, legend], 32)
    return stacked([notes, beside if beside.width <= width else stacked([table, legend], GAP)], 14)


def _distance_table(picture: Picture) -> Node:
    if not picture.distances:
        return Node(0, 0)
    texts = [str(value) for zone, row in picture.distances for value in (zone, *row)]
    cell, line = max(text_width(text, SMALL) for text in texts) + 12, 16.0
    left = text_width("Distances", SMALL, "bold") + 4
    parts: list[Text] = [Text(0, 11, "Distances", SMALL, "bold")]
    for i, (zone, row) in enumerate(picture.distances, 1):
        parts.append(Text(left + i * cell, 11, str(zone), SMALL, "dim", right=True))
        parts.append(Text(0, 11 + i * line, f"Zone {zone}", SMALL, "dim"))
        for column, value in enumerate(row, 1):
            text = "?" if value is None else str(value)
            parts.append(Text(left + column * cell, 11 + i * line, text, SMALL, right=True))
    count = len(picture.distances)
    return Node(left + count * cell, (count + 1) * line, tuple(parts))


# --- legend


_LEGEND = {
    "zone": "NUMA zone",
    "cache": "shared cache",
    "memory": "memory without CPUs",
    "core": "core",
    "core performance": "performance core",
    "core efficiency": "efficiency core",
    "core isolated": "isolated",
    "core denied": "not allowed here",
    "core offline": "offline",
}
_STATES = {"isolated": "core isolated", "not allowed": "core denied", "offline": "core offline"}


def _legend(picture: Picture, width: float) -> Node:
    kinds = {kind for box in picture.boxes for kind in _kinds_in(box)}
    return in_rows([_swatch(kind, text) for kind, text in _LEGEND.items() if kind in kinds], width, 18)


def _swatch(kind: str, text: str) -> Node:
    square = Node(12, 12, (), kind)
    name = text_node(text, SMALL, "dim")
    return Node(18 + name.width, name.height, (Positioned(0, 1.5, square), Positioned(18, 0, name)))


def _kinds_in(box: Box | Cores) -> Iterator[str]:
    if isinstance(box, Cores):
        yield f"core {box.kind}" if box.kind else "core"
        yield from (_STATES[state] for state in box.state if state in _STATES)
        return
    yield rect_kind(box)
    if box.memories:
        yield "memory"
    for child in box.children:
        yield from _kinds_in(child)
