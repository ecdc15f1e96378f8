"""Man pages: sections, exit statuses, and characters with a meaning in roff."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from zonewise_common.cli.man_page import command_page, program_page
from zonewise_common.cli.option_specs import CommandSpec, OptionSpec

COMMAND = CommandSpec(
    "queue",
    "list queues",
    "prog queue [-h] [QUEUE]",
    (
        OptionSpec((), "QUEUE", (), ".hidden \\ name"),
        OptionSpec(("-o", "--output"), "json|yaml", ("json", "yaml"), "the form"),
    ),
    "USED counts. Status 0: done; 1: there is no such queue; 2: unusable arguments.",
)


def test_a_page() -> None:
    page = command_page("prog", COMMAND, "1.0")
    assert ".SH NAME\nprog\\-queue \\- list queues\n" in page
    assert ".SH NOTES\nUSED counts.\n" in page
    assert ".TP\n1\nthere is no such queue\n" in page
    assert ".TP\n130\ninterrupted\n" in page
    assert "\\&.hidden \\e name" in page
    assert "\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fIjson|yaml\\fR" in page


def test_the_page_of_the_program_lists_commands() -> None:
    assert ".BR prog\\-queue (1)\nlist queues\n" in program_page("prog", [COMMAND], "1.0")


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_groff_has_no_complaint() -> None:
    text = command_page("prog", COMMAND, "1.0") + program_page("prog", [COMMAND], "1.0")
    command = ["groff", "-man", "-ww", "-z", "-Tutf8"]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
