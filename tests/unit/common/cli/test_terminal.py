"""Capabilities of standard output: colours only on a terminal, NO_COLOR, widths, an encoding without Unicode."""

from __future__ import annotations

import io
import sys

import pytest

from zonewise_common.cli.terminal import MIN_WIDTH, UNLIMITED_WIDTH, Terminal, stdout_terminal


class Screen(io.TextIOWrapper):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


def use_stdout(monkeypatch: pytest.MonkeyPatch, *, screen: bool, encoding: str = "utf-8") -> None:
    kind = Screen if screen else io.TextIOWrapper
    monkeypatch.setattr(sys, "stdout", kind(io.BytesIO(), encoding=encoding))


@pytest.mark.parametrize(
    ("screen", "color", "environ", "colors"),
    [
        (True, "auto", {}, True),
        (True, "auto", {"NO_COLOR": "1"}, False),
        (True, "auto", {"NO_COLOR": ""}, True),
        (True, "auto", {"TERM": "dumb"}, False),
        (True, "never", {}, False),
        (False, "auto", {}, False),
        (False, "always", {"NO_COLOR": "1"}, True),
    ],
)
def test_colors(
    screen: bool, color: str, environ: dict[str, str], colors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_stdout(monkeypatch, screen=screen)
    assert stdout_terminal(color, environ).colors is colors


def test_a_file_has_lines_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    use_stdout(monkeypatch, screen=False)
    assert stdout_terminal("auto", {}).width == UNLIMITED_WIDTH
    assert stdout_terminal("auto", {"COLUMNS": "80"}).width == 80
    assert stdout_terminal("auto", {"COLUMNS": "1"}).width == MIN_WIDTH
    assert stdout_terminal("auto", {"COLUMNS": "wide"}).width == UNLIMITED_WIDTH


def test_a_terminal_without_unicode_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    use_stdout(monkeypatch, screen=True, encoding="ascii")
    assert stdout_terminal("auto", {}).ellipsis == "~"
    assert Terminal(unicode=True).ellipsis == "…"


def test_styles() -> None:
    assert Terminal(colors=True).styled("up", "good") == "\x1b[32mup\x1b[0m"
    assert Terminal(colors=True).styled("up", "") == "up"
    assert Terminal(colors=False).styled("up", "good") == "up"
