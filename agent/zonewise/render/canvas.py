"""Cuts, wraps and frames blocks of styled text with known widths on a terminal, and places them side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Span = tuple[str, str]
"""(style, text); the styles are the keys of COLOURS."""

Line = tuple[Span, ...]
"""A line of spans, each with its own style."""

COLOURS = {
    "": "",
    "title": "1",
    "frame": "2",
    "package": "1",
    "zone": "1;36",
    "cache": "33",
    "cpus": "32",
    "gpu": "1;32",
    "network": "34",
    "storage": "35",
    "accelerator": "36",
    "memory": "36",
    "bus": "2",
    "dim": "2",
    "bad": "1;31",
}
"""SGR parameters of each style: only the 16 colours that users can configure on every terminal; none for plain text."""

_ASCII = str.maketrans("─│╭╮╰╯┌┐└┘├┤·×…\N{REPLACEMENT CHARACTER}", "-|++++++++++-x~?")
ELLIPSIS = "…"


class Frame(NamedTuple):
    """The corners of a box."""

    top_left: str
    top_right: str
    bottom_left: str
    bottom_right: str


ROUNDED = Frame("╭", "╮", "╰", "╯")
SQUARE = Frame("┌", "┐", "└", "┘")


def column_width(text: str) -> int:
    """Return how many columns a text occupies: two per wide East Asian character, none for combining characters."""
    if text.translate(_ASCII).isascii():
        return len(text)
    import unicodedata  # 1 MB, and only for names outside ASCII

    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def line_width(line: Line) -> int:
    """Return how many columns a line occupies."""
    return sum(column_width(text) for _, text in line)


def clip(line: Line, width: int) -> Line:
    """Return a line of at most `width` columns, with an ellipsis if it is cut."""
    if line_width(line) <= width:
        return line
    remaining = width - 1
    spans: list[Span] = []
    for style, text in line:
        part = text[: _fitting(text, remaining)]
        spans.append((style, part))
        remaining -= column_width(part)
        if part != text:
            return (*spans, (style, ELLIPSIS))
    return tuple(spans)


def _fitting(text: str, width: int) -> int:
    """Return how many characters of a text fit into the given columns."""
    end = min(len(text), max(width, 0))
    while end < len(text) and column_width(text[: end + 1]) <= width:
        end += 1
    while end and column_width(text[:end]) > width:
        end -= 1
    return end


def pad(line: Line, width: int) -> Line:
    """Return a line of exactly `width` columns."""
    line = clip(line, width)
    missing = width - line_width(line)
    return (*line, ("", " " * missing)) if missing else line


def joined(phrases: Iterable[Line], separator: str) -> Line:
    """Return phrases as one line, separated by a dim separator."""
    spans: list[Span] = []
    for phrase in phrases:
        spans += [("dim", separator), *phrase] if spans else phrase
    return tuple(spans)


def wrap(phrases: Iterable[Span], width: int, *, separator: str = "  ", indent: int = 2) -> list[Line]:
    """Return phrases in lines of at most `width` columns; lines after the first are indented.

    A phrase that fits into a line is not broken; a longer one is broken after a bar, a comma or a space.
    """
    lines: list[Line] = []
    for style, text in phrases:
        last = lines[-1] if lines else ()
        if last and line_width(last) + len(separator) + column_width(text) <= width:
            lines[-1] = (*last, ("dim", separator), (style, text))
            continue
        for part in _break(text, width - indent):
            lines.append((("", " " * indent), (style, part)) if lines else ((style, part),))
    return lines


def _break(text: str, width: int) -> list[str]:
    parts: list[str] = []
    while column_width(text) > width:
        end = max(_fitting(text, width), 1)
        cut = next((position for mark in ("| ", ",", " ") if (position := text.rfind(mark, 0, end) + 1)), end)
        parts.append(text[:cut].rstrip(" "))
        text = text[cut:].lstrip(" ")
    return [*parts, text]


def frame_block(title: Line, body: Sequence[Line], width: int, frame: Frame) -> list[Line]:
    """Return a block in a frame of `width` columns, with its title in the upper edge."""
    title = clip(title, width - 6)
    rest = width - 5 - line_width(title)
    return [
        (("frame", f"{frame.top_left}─ "), *title, ("frame", f" {'─' * rest}{frame.top_right}")),
        *((("frame", "│ "), *pad(line, width - 4), ("frame", " │")) for line in body),
        (("frame", f"{frame.bottom_left}{'─' * (width - 2)}{frame.bottom_right}"),),
    ]


def pad_height(block: Sequence[Line], height: int) -> list[Line]:
    """Return a framed block of at least `height` lines; empty lines are added above its lower edge."""
    edge: Line = (("frame", "│"), ("", " " * (line_width(block[-1]) - 2)), ("frame", "│"))
    return [*block[:-1], *[edge] * (height - len(block)), block[-1]]


def beside(blocks: Sequence[Sequence[Line]], widths: Sequence[int], gap: int) -> list[Line]:
    """Return blocks of equal height side by side, each padded to its width."""
    space: Line = (("", " " * gap),)
    rows: list[Line] = []
    for parts in zip(*blocks, strict=True):
        row: Line = ()
        for part, width in zip(parts, widths, strict=False):
            row = (*row, *(space if row else ()), *pad(part, width))
        rows.append(row)
    return rows


def paint(lines: Iterable[Line], *, colour: bool, unicode: bool) -> str:
    """Return the lines as text without trailing blanks; colours do not change the characters."""
    rows: list[str] = []
    for line in lines:
        spans = [(style, text if unicode else _in_ascii(text)) for style, text in line]
        while spans and not spans[-1][1].strip(" "):
            spans.pop()
        if spans:
            spans[-1] = (spans[-1][0], spans[-1][1].rstrip(" "))
        rows.append("".join(_coloured(style, text) if colour else text for style, text in spans))
    return "\n".join(rows)


def _coloured(style: str, text: str) -> str:
    code = COLOURS[style]
    return f"\x1b[{code}m{text}\x1b[0m" if code and text.strip(" ") else text


def _in_ascii(text: str) -> str:
    """Return a text of the same width in ASCII."""
    text = text.translate(_ASCII)
    return text if text.isascii() else "".join(c if c.isascii() else "?" * column_width(c) for c in text)
