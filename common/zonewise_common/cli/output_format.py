"""Output formats of the commands that list things: all of them share the option -o."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.cli.command import CommandError
from zonewise_common.cli.table import render_table
from zonewise_common.cli.terminal import COLOR_CHOICES, printable
from zonewise_common.k8s.yaml_dumper import kubectl_dumper

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

    from zonewise_common.cli.table import Table
    from zonewise_common.cli.terminal import Terminal

TABLE, WIDE, JSON, YAML, NAME = "table", "wide", "json", "yaml", "name"
FORMATS = (TABLE, WIDE, JSON, YAML, NAME)
_YAML_BREAKS = frozenset("\x85\u2028\u2029")


class Listing(NamedTuple):
    """The objects that a command lists, for people and for programs."""

    tables: Sequence[Table]
    """Tables separated by blank lines; tables without rows are omitted."""
    document: Any
    """The value printed by -o json and -o yaml."""
    names: Sequence[str] = ()
    """The names printed by -o name, such as "job.batch/train", as kubectl prints them."""
    notes: Sequence[str] = ()
    """Sentences printed below the tables."""
    empty: str = "nothing to show"
    """The sentence printed if no table has rows."""


def add_output_arguments(parser: ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    """Declare -o and --color."""
    parser.add_argument("-o", "--output", choices=formats, default=TABLE, help=f"output format (default: {TABLE})")
    parser.add_argument(
        "--color", choices=COLOR_CHOICES, default="auto",
        help="use colours; auto: only on a terminal, and not if NO_COLOR is set (default: auto)",
    )  # fmt: skip


def render_listing(listing: Listing, output: str, terminal: Terminal) -> str:
    """Return the text of a listing in one of FORMATS."""
    if output in (JSON, YAML):
        return render_document(listing.document, output)
    if output == NAME:
        return "".join(f"{name}\n" for name in listing.names)
    tables = [render_table(table, terminal, wide=output == WIDE) for table in listing.tables if table.rows]
    notes = "".join(f"{printable(note)}\n" for note in listing.notes)
    parts = [*(tables or [f"{listing.empty}\n"]), *([notes] if notes else [])]
    return "\n".join(parts)


def render_document(document: Any, output: str) -> str:  # noqa: ANN401 -- any JSON value
    """Return a JSON value as JSON or as YAML."""
    if output == JSON:
        return json.dumps(document, indent=2) + "\n"
    if output != YAML:
        raise CommandError(f"unknown format {output}: the formats are {JSON} and {YAML}")
    import yaml  # not at the top: the import takes 20 ms

    def represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, _yaml_style(text))  # pyright: ignore[reportUnknownMemberType]

    dumper = kubectl_dumper(yaml.SafeDumper)
    dumper.add_representer(str, represent_text)
    return yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)


def _yaml_style(text: str) -> str | None:
    """Return the YAML style of a text: a block for several lines; None leaves the style to the dumper.

    Some characters count as line breaks, and a reader would replace them (YAML 1.1, section 4.1.4).
    """
    if not _YAML_BREAKS.isdisjoint(text):
        return '"'
    return "|" if "\n" in text else None
