"""The description of one object: a title, and labelled lines that are wrapped to the terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_common.cli.terminal import Terminal

_MIN_TEXT = 24
"""Minimum width of a text in columns, however long the labels are."""


class Detail(NamedTuple):
    """A labelled line; several texts are printed below each other."""

    label: str
    texts: Sequence[str]
    style: str = ""


def render_details(title: str, details: Iterable[Detail], terminal: Terminal) -> str:
    """Return the title and those details that have a text. Control characters in texts are escaped."""
    shown = [detail for detail in details if any(detail.texts)]
    margin = max((len(detail.label) for detail in shown), default=0) + 2
    lines = [terminal.styled(printable(title), "bold")]
    for detail in shown:
        parts = [part for text in detail.texts if text for part in _wrapped(printable(text), terminal, margin)]
        for i, part in enumerate(parts):
            label = detail.label if i == 0 else ""
            lines.append(f"{terminal.styled(label, 'dim')}{' ' * (margin - len(label))}"
                         f"{terminal.styled(part, detail.style)}")  # fmt: skip
    return "\n".join(lines) + "\n"


def _wrapped(text: str, terminal: Terminal, margin: int) -> list[str]:
    if not terminal.width:
        return [text]
    width = max(_MIN_TEXT, terminal.width - margin)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
