"""Shapes of a vector picture: sized nodes that contain texts, lines and further nodes, and their SVG.

Texts are measured with the widths of DejaVu Sans, the widest of the listed fonts, so that they fit in any of these.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"

_EMS = {
    0.30: "'ijlIJ",
    0.34: " ,.·/:;\\|",
    0.42: "-f!()[]tr",
    0.54: '"*_`sz?c',
    0.62: "LFkPvxyTYaeo",
    0.66: "$0123456789ESbdghnpqu{}K",
    0.74: "ABVXZCRNU",
    0.80: "H&DGOQ",
    0.84: "w#+<=>^~×",
    0.88: "M",
}
_EM_BY_CHARACTER = {character: em for em, characters in _EMS.items() for character in characters}
_WIDEST_EM = 1.02  # width of characters in no class: "W", "m", "@", "…", and those of East Asian scripts
_BOLD = 1.15
_RADII = {"package": 8.0, "unknown": 8.0, "bus": 8.0, "zone": 6.0, "cache": 4.0, "memory": 4.0, "page": 0.0}
_RADIUS = 3.0  # corner radius of everything else
_ASCENT, _LEADING = 0.8, 1.4  # multiples of the font size


class Text(NamedTuple):
    """A line of text whose baseline starts, or ends if `right`, at a point of its node."""

    x: float
    y: float
    text: str
    size: float
    style: str = ""
    """Any of the words "bold", "dim" and "bad"."""
    right: bool = False


class Lines(NamedTuple):
    """Straight strokes of one style, each (x1, y1, x2, y2) in its node."""

    strokes: tuple[tuple[float, float, float, float], ...]
    style: str


class Node(NamedTuple):
    """A rectangle with its content; without a kind, it is only a group that is not drawn itself."""

    width: float
    height: float
    parts: tuple[Text | Lines | Positioned, ...] = ()
    kind: str = ""
    title: str = ""
    """The tooltip."""


class Positioned(NamedTuple):
    """A node at a position in its parent node."""

    x: float
    y: float
    node: Node


@lru_cache(4096)  # every arrangement measures the same texts
def text_width(text: str, size: float, style: str = "") -> float:
    """Return the maximum width of a text, in user units."""
    ems = sum(_EM_BY_CHARACTER.get(character, _WIDEST_EM) for character in text)
    return ems * size * (_BOLD if "bold" in style else 1)


def shortened(text: str, width: float, size: float, style: str = "") -> str:
    """Return a text of at most `width`, with an ellipsis if it is cut."""
    if text_width(text, size, style) <= width:
        return text
    left = width - text_width("…", size, style)
    end = 0
    for character in text:
        left -= text_width(character, size, style)
        if left < 0:
            break
        end += 1
    return f"{text[:end].rstrip()}…"


def text_node(text: str, size: float, style: str = "") -> Node:
    """Return a node of one line of text."""
    width = text_width(text, size, style)
    return Node(width, size * _LEADING, (Text(0, size * (_ASCENT + 0.3), text, size, style),))


def paragraph(phrases: Iterable[str], width: float, size: float, style: str = "", separator: str = " · ") -> Node:
    """Return a node of phrases in lines of at most `width`; a phrase that is too long is cut."""
    lines: list[str] = []
    for phrase in phrases:
        longer = f"{lines[-1]}{separator}{phrase}" if lines else phrase
        if lines and text_width(longer, size, style) <= width:
            lines[-1] = longer
        else:
            lines.append(shortened(phrase, width, size, style))
    return stacked([text_node(line, size, style) for line in lines], 0)


def stacked(nodes: Sequence[Node], gap: float) -> Node:
    """Return nodes one below another."""
    y = 0.0
    parts: list[Positioned] = []
    for node in nodes:
        if node.height:
            parts.append(Positioned(0, y, node))
            y += node.height + gap
    return Node(max((node.width for node in nodes), default=0), max(y - gap, 0), tuple(parts))


def in_row(nodes: Sequence[Node], gap: float) -> Node:
    """Return nodes side by side, with their upper edges aligned."""
    x = 0.0
    parts: list[Positioned] = []
    for node in nodes:
        if node.width:
            parts.append(Positioned(x, 0, node))
            x += node.width + gap
    return Node(max(x - gap, 0), max((node.height for node in nodes), default=0), tuple(parts))


def in_rows(nodes: Sequence[Node], width: float, gap: float) -> Node:
    """Return nodes side by side in as many rows as a width requires."""
    rows: list[list[Node]] = [[]]
    for node in nodes:
        if rows[-1] and in_row([*rows[-1], node], gap).width > width:
            rows.append([])
        rows[-1].append(node)
    return stacked([in_row(row, gap) for row in rows], 4)


def in_grid(nodes: Sequence[Node], columns: int, gap: float) -> Node:
    """Return nodes in rows of `columns`, stretched to one height per row and to one width."""
    width = max(node.width for node in nodes)
    rows: list[Node] = []
    for start in range(0, len(nodes), columns):
        row = nodes[start : start + columns]
        height = max(node.height for node in row)
        rows.append(in_row([node._replace(width=width, height=height) for node in row], gap))
    return stacked(rows, gap)


def padded(node: Node, padding: float, kind: str) -> Node:
    """Return a drawn node around another node."""
    width, height = node.width + 2 * padding, node.height + 2 * padding
    return Node(width, height, (Positioned(padding, padding, node),), kind)


def best_shaped(candidates: Iterable[Node], ratio: float) -> Node:
    """Return the node whose width differs from `ratio` times its height by the smallest factor."""

    def distance(node: Node) -> float:
        shape = node.width / max(node.height, 1) / ratio
        return max(shape, 1 / max(shape, 1e-6))

    return min(candidates, key=distance)


# --- SVG


def svg_elements(node: Node, x: float = 0, y: float = 0) -> Iterator[str]:
    """Yield the SVG of a node at a position, in absolute coordinates."""
    if node.kind:
        yield f'<g class="{node.kind.partition(" ")[0]}">'
        if node.title:
            yield f"<title>{escape_xml(node.title)}</title>"
        radius = min(_RADII.get(node.kind, _RADIUS), node.width / 4)
        yield (
            f'<rect class="{node.kind}" x="{format_coordinate(x)}" y="{format_coordinate(y)}" '
            f'rx="{format_coordinate(radius)}" '
            f'width="{format_coordinate(node.width)}" height="{format_coordinate(node.height)}"/>'
        )
    for part in node.parts:
        if isinstance(part, Positioned):
            yield from svg_elements(part.node, x + part.x, y + part.y)
        elif isinstance(part, Text):
            yield _text(part, x, y)
        else:
            yield _strokes(part, x, y)
    if node.kind:
        yield "</g>"


def _text(part: Text, x: float, y: float) -> str:
    anchor = ' text-anchor="end"' if part.right else ""
    style = f' class="{part.style}"' if part.style else ""
    position = f'x="{format_coordinate(x + part.x)}" y="{format_coordinate(y + part.y)}"'
    return f'<text {position} font-size="{format_coordinate(part.size)}"{style}{anchor}>{escape_xml(part.text)}</text>'


def _strokes(part: Lines, x: float, y: float) -> str:
    path = "".join(
        f"M{format_coordinate(x + x1)} {format_coordinate(y + y1)}"
        f"L{format_coordinate(x + x2)} {format_coordinate(y + y2)}"
        for x1, y1, x2, y2 in part.strokes
    )
    return f'<path class="{part.style}" d="{path}"/>'


def format_coordinate(value: float) -> str:
    """Format a coordinate to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")


def escape_xml(text: str) -> str:
    """Return a text that is safe in XML content and attributes; characters that XML forbids are replaced."""
    allowed = "".join(character if _allowed(ord(character)) else "\N{REPLACEMENT CHARACTER}" for character in text)
    return allowed.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _allowed(code: int) -> bool:
    """Return whether XML 1.0 (section 2.2) permits a character."""
    return code in (9, 10, 13) or 32 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code >= 0x10000
