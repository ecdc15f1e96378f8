"""Details: labels in one column, texts wrapped beside them."""

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
