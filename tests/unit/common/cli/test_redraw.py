"""--watch prints a text again only if it has changed, and clears the screen only on a terminal."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from typing import TYPE_CHECKING

import pytest

from zonewise_common.cli.redraw import add_watch_arguments, show
from zonewise_common.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(texts: list[str]) -> Callable[[float], None]:
    """Return a wait that raises KeyboardInterrupt, as Ctrl-C does, once all texts were shown."""

    def wait(_seconds: float) -> None:
        if not texts:
            raise KeyboardInterrupt

    return wait


@pytest.mark.parametrize(
    ("interactive", "shown"), [(False, "a\n\nb\n"), (True, "\x1b[H\x1b[2J\x1b[3Ja\n\x1b[H\x1b[2J\x1b[3Jb\n")]
)
def test_a_watch_shows_what_changes(interactive: bool, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["b\n", "a\n", "a\n"]
    with pytest.raises(KeyboardInterrupt):
        show(texts.pop, Terminal(interactive=interactive), watch=True, wait=wait_until(texts))
    assert capsys.readouterr().out == shown


def test_a_watch_ends_once_its_reader_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `zonewise queue --watch | head -1`, while the text does not change."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(BrokenPipeError):
            show(lambda: "a\n", Terminal(), watch=True, wait=lambda _: os.close(reader))


def test_without_a_watch_it_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    show(lambda: "a\n", Terminal(interactive=True))
    assert capsys.readouterr().out == "a\n"


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon"])
def test_an_interval_has_a_least_value(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = ArgumentParser()
    add_watch_arguments(parser)
    assert parser.parse_args(["--interval", "0.5"]).interval == 0.5
    with pytest.raises(SystemExit):
        parser.parse_args([f"--interval={text}"])
    assert "is not a number of seconds; the smallest is 0.5" in capsys.readouterr().err
