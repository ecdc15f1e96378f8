"""The capabilities of the terminal: its width, colours, and characters beyond ASCII."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.cli.output import supports_unicode

if TYPE_CHECKING:
    from collections.abc import Mapping

UNLIMITED_WIDTH = 0
MIN_WIDTH = 40
"""Minimum width in columns; a narrower terminal wraps the lines itself."""
COLOR_CHOICES = ("auto", "always", "never")

_STYLES = {"good": "32", "warning": "33", "bad": "31", "dim": "2", "bold": "1"}
"""SGR parameters (ECMA-48, 8.3.117) by style."""

_CONTROLS = {code: f"^{chr(code ^ 64)}" for code in (*range(32), 127)} | dict.fromkeys(map(ord, "\t\n\r"), " ")
"""Printable forms of the ASCII control characters (ECMA-48, 5.2): ESC becomes ^[, as in kubectl and cat -v."""


def printable(text: str) -> str:
    """Return a text on one line, without characters that control a terminal.

    Anyone may write texts into the objects of a cluster.

    Other separators and format characters, such as those that reverse a text's order (Unicode, UAX 9), become "?".
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _CONTROLS.get(ord(one), "?") for one in text)


class Terminal(NamedTuple):
    """The capabilities of standard output."""

    width: int = UNLIMITED_WIDTH
    """Columns; UNLIMITED_WIDTH if lines may have any length, as in a file."""
    colors: bool = False
    unicode: bool = True
    interactive: bool = False
    """Whether standard output is a terminal, whose screen can be redrawn."""

    @property
    def ellipsis(self) -> str:
        """Return the mark of a shortened text."""
        return "…" if self.unicode else "~"

    def styled(self, text: str, style: str) -> str:
        """Return a text in a style such as "good"; the text itself without colours or if the style is ""."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.colors and style and text else text


def stdout_terminal(color: str = "auto", environ: Mapping[str, str] | None = None) -> Terminal:
    """Return the capabilities of standard output.

    `color` is one of COLOR_CHOICES. NO_COLOR (https://no-color.org) and TERM=dumb disable colours for "auto". COLUMNS
    sets the width, even for a file.
    """
    environ = os.environ if environ is None else environ
    interactive = sys.stdout.isatty()
    is_plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        width = max(MIN_WIDTH, int(columns))
    else:
        width = max(MIN_WIDTH, shutil.get_terminal_size().columns) if interactive else UNLIMITED_WIDTH
    colors = color == "always" or (color == "auto" and interactive and not is_plain)
    return Terminal(width, colors, supports_unicode(), interactive)
