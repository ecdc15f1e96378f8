"""One listing in each format."""

from __future__ import annotations

import json
from argparse import ArgumentParser

import pytest
import yaml

from zonewise_common.cli.command import CommandError
from zonewise_common.cli.output_format import FORMATS, Listing, add_output_arguments, render_document, render_listing
from zonewise_common.cli.table import Column, make_table
from zonewise_common.cli.terminal import Terminal

DOCUMENT = {"items": [{"name": "train", "script": "#!/bin/sh\nexit 0\n", "start": None}]}
LISTING = Listing(
    [make_table([Column("NAME")], [["train"]]), make_table([Column("EMPTY")], [])],
    DOCUMENT,
    ["job.batch/train"],
    ["Forecasts are missing."],
)


def test_a_table_with_notes() -> None:
    assert render_listing(LISTING, "table", Terminal()) == "NAME\ntrain\n\nForecasts are missing.\n"


def test_notes_of_others_reach_no_terminal_as_commands() -> None:
    """A note may contain a server's message or a field of an object."""
    assert render_listing(LISTING._replace(notes=["a\x1b[2J\nb"]), "table", Terminal()).endswith("\na^[[2J b\n")


def test_nothing_to_list() -> None:
    empty = Listing([make_table([Column("NAME")], [])], {}, empty="There are no jobs.")
    assert render_listing(empty, "table", Terminal()) == "There are no jobs.\n"
    assert render_listing(empty, "name", Terminal()) == ""


def test_names() -> None:
    assert render_listing(LISTING, "name", Terminal()) == "job.batch/train\n"


def test_documents() -> None:
    assert json.loads(render_listing(LISTING, "json", Terminal())) == DOCUMENT
    text = render_listing(LISTING, "yaml", Terminal())
    assert yaml.safe_load(text) == DOCUMENT
    assert "script: |\n" in text


@pytest.mark.parametrize("break_", ["\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("text", ["#!/bin/sh\n# one{0}line\n", "one{0}line"])
def test_characters_that_end_a_line_in_yaml_are_read_back(text: str, break_: str) -> None:
    """A reader takes U+0085 in a block scalar for a newline."""
    document = {"script": text.format(break_)}
    written = render_document(document, "yaml")
    assert yaml.safe_load(written) == document
    assert written.isascii()


@pytest.mark.parametrize("text", ["1e-4", "08", "y"])
def test_texts_remain_texts_in_yaml(text: str) -> None:
    """Without quotes, kubectl reads these strings as numbers and booleans."""
    assert render_document([text], "yaml") == f"- '{text}'\n"


def test_arguments() -> None:
    parser = ArgumentParser()
    add_output_arguments(parser)
    assert vars(parser.parse_args([])) == {"output": "table", "color": "auto"}
    assert [parser.parse_args(["-o", name]).output for name in FORMATS] == list(FORMATS)


def test_an_unknown_format() -> None:
    with pytest.raises(CommandError, match="unknown format xml: the formats are json and yaml"):
        render_document({}, "xml")
