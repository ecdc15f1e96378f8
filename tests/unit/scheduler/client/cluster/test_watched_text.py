"""`--watch` during an outage of the API server."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from zonewise_common.cli.terminal import stdout_terminal
from zonewise_common.kube.errors import ConfigError, Forbidden, TransportError
from zonewise_scheduler.client.cluster.watched_text import show_text

if TYPE_CHECKING:
    from collections.abc import Sequence


def shown(outcomes: Sequence[str | Exception], *, watch: bool = True) -> None:
    """Show the outcomes of requests one after the other, then press Ctrl-C."""
    waiting = iter(outcomes)

    def render() -> str:
        outcome = next(waiting, KeyboardInterrupt())
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    show_text(render, stdout_terminal("never"), Namespace(watch=watch, interval=1.0), wait=lambda _: None)


@pytest.mark.parametrize("kind", [TransportError, ConfigError])
def test_an_outage_is_reported_once(kind: type[Exception], capsys: pytest.CaptureFixture[str]) -> None:
    """A program that returns credentials may fail temporarily too (ConfigError), like a server."""
    refused = kind("connection refused")
    with pytest.raises(KeyboardInterrupt):
        shown(["one\n", refused, refused, "one\n", "two\n"])
    printed = capsys.readouterr()
    assert printed.out == "one\n\ntwo\n"
    assert printed.err == (
        "zonewise: the API server: connection refused; the output shows the last known state until it responds\n"
        "zonewise: the API server responds again\n"
    )


@pytest.mark.parametrize(
    ("outcomes", "error"),
    [
        ([TransportError("refused")], TransportError),
        ([ConfigError("the token is empty")], ConfigError),
        (["one\n", Forbidden(403, "Forbidden", "no right to list pods")], Forbidden),
    ],
)
def test_other_failures_end_the_command(outcomes: list[str | Exception], error: type[Exception]) -> None:
    """The command ends if nothing was shown before the failure, or if the failure is not an outage."""
    with pytest.raises(error):
        shown(outcomes)


def test_without_watch_the_text_is_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    shown(["one\n", "two\n"], watch=False)
    assert capsys.readouterr().out == "one\n"
