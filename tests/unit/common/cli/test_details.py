"""Details: labels in one column, with wrapped texts beside them."""

from __future__ import annotations

from zonewise_common.cli.details import Detail, render_details
from zonewise_common.cli.terminal import Terminal

DETAILS = [
    Detail("state", ["Pending"], "warning"),
    Detail("empty", [""]),
    Detail("why", ["needs 8 GPUs of flavor h100 that other jobs have", "waits for b"]),
]


def test_details_without_a_text_are_left_out() -> None:
    assert render_details("Job ns/a", DETAILS, Terminal()) == (
        "Job ns/a\nstate  Pending\nwhy    needs 8 GPUs of flavor h100 that other jobs have\n       waits for b\n"
    )


def test_texts_are_wrapped() -> None:
    lines = render_details("Job ns/a", DETAILS, Terminal(width=40)).splitlines()
    assert lines[2:] == ["why    needs 8 GPUs of flavor h100 that", "       other jobs have", "       waits for b"]


def test_styles() -> None:
    assert "\x1b[33mPending\x1b[0m" in render_details("Job ns/a", DETAILS, Terminal(colors=True))


def test_a_title_of_others_reaches_no_terminal_as_commands() -> None:
    """A job's kind is text from its user, because the owner of a Workload may have any kind."""
    assert render_details("Job\x1b[2J ns/a", [], Terminal()) == "Job^[[2J ns/a\n"


def test_texts_of_others_reach_no_terminal_as_commands() -> None:
    """Anyone may write the message of an Event. An escape sequence in it must not clear the screen or forge a line."""
    details = [Detail("why", ["a\x1b[2J\nstate  Admitted\x9b1m\x7f\x08 \u202eb\u2028"])]
    for terminal in (Terminal(), Terminal(width=200)):
        assert render_details("Job ns/a", details, terminal) == "Job ns/a\nwhy  a^[[2J state  Admitted?1m^?^H ?b?\n"
