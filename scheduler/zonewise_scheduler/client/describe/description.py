"""The description of one object that `zonewise explain` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.cli.details import render_details
from zonewise_common.cli.output_format import JSON, NAME, WIDE, YAML, render_document
from zonewise_common.cli.table import render_table
from zonewise_common.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_common.cli.details import Detail
    from zonewise_common.cli.table import Table
    from zonewise_common.cli.terminal import Terminal


class Description(NamedTuple):
    """A title with details and tables, and the same content as a document for programs."""

    title: str
    details: Sequence[Detail]
    document: Any
    name: str
    """The name for -o name."""
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


def render_description(description: Description, output: str, terminal: Terminal) -> str:
    """Return the text of a description in one of the output formats."""
    if output in (JSON, YAML):
        return render_document(description.document, output)
    if output == NAME:
        return f"{description.name}\n"
    parts = [render_details(description.title, description.details, terminal)]
    parts += [render_table(table, terminal, wide=output == WIDE) for table in description.tables if table.rows]
    parts += ["".join(f"{printable(note)}\n" for note in description.notes)] if description.notes else []
    return "\n".join(parts)
