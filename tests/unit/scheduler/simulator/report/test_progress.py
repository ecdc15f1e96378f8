"""The progress line: when it is shown, what it contains, and that it is removed."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.simulator.report.progress import INITIAL_DELAY, ProgressLine, terminal_width

DAY = 86_400.0


class Wall:
    """A wall clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A terminal that records what is visible on one of its lines."""

    @property
    def observed(self) -> str:
        line: list[str] = []
        at = 0
        for letter in self.getvalue():
            if letter == "\r":
                at = 0
            else:
                line[at : at + 1] = [letter]
                at += 1
        return "".join(line).rstrip()

    @property
    def lines(self) -> list[str]:
        return [entry.rstrip() for entry in self.getvalue().split("\r") if entry.strip()]


def drawn(done: int, total: int, elapsed: float, width: int = 80, title: str = "easy") -> str:
    terminal, wall = Terminal(), Wall()
    progress = ProgressLine(terminal, title, width, wall)
    progress.update(0, total, 0)
    wall.now += elapsed
    progress.update(done, total, 5 * DAY)
    return terminal.observed


def test_a_short_run_shows_no_progress() -> None:
    terminal, wall = Terminal(), Wall()
    progress = ProgressLine(terminal, "easy", 80, wall)
    wall.now += INITIAL_DELAY / 2
    progress.update(50, 100, 1)
    progress.clear()
    assert terminal.getvalue() == ""


def test_the_line_shows_the_progress() -> None:
    assert drawn(2500, 10_000, 20) == " 25 %  60 s left  easy  2,500 of 10,000 jobs  5 d simulated"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (60, " 25 %  60 s left  easy  2,500 of 10,000 jobs  5 d simulated"),
        (59, " 25 %  60 s left  easy  2,500 of 10,000 jobs"),
        (40, " 25 %  60 s left  easy"),
        (10, " 25 %"),
    ],
)
def test_parts_that_do_not_fit_are_omitted(width: int, line: str) -> None:
    """The last column remains empty, since some terminals would begin a new line."""
    assert drawn(2500, 10_000, 20, width) == line


def test_the_line_is_not_written_more_often_than_can_be_read() -> None:
    terminal, wall = Terminal(), Wall()
    progress = ProgressLine(terminal, "easy", 80, wall)
    for done in range(1, 1001):
        wall.now += 0.002
        progress.update(done, 1000, done)
    assert 10 <= len(terminal.lines) <= 15


def test_the_line_is_removed_at_the_end() -> None:
    terminal, wall = Terminal(), Wall()
    progress = ProgressLine(terminal, "a long title of a policy", 80, wall)
    for done in (1, 2, 999):
        wall.now += 1
        progress.update(done, 1000, 1)
    assert terminal.observed
    progress.clear()
    assert terminal.observed == ""
    assert terminal.getvalue().endswith("\r")


def test_before_anything_has_ended() -> None:
    """The remaining time is unknown, but the line still shows progress."""
    assert drawn(0, 10, 20) == "  0 %  begun  easy  0 of 10 jobs  5 d simulated"


def test_more_jobs_may_end_than_were_announced() -> None:
    assert drawn(11, 10, 20).startswith("100 %  0 s left")


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 10), st.floats(0, 1e9)), max_size=20), st.integers(7, 90))
def test_a_shorter_line_overwrites_a_longer_one(reported: list[tuple[int, float, float]], width: int) -> None:
    terminal, wall = Terminal(), Wall()
    progress = ProgressLine(terminal, "easy", width, wall)
    for done, passed, now in reported:
        wall.now += passed
        progress.update(done, 10**6, now)
        assert len(terminal.observed) < width
        assert terminal.observed == (terminal.lines[-1] if terminal.lines else "")
    progress.clear()
    assert terminal.observed == ""


@pytest.fixture
def no_columns(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("COLUMNS", raising=False)
    return monkeypatch


def test_the_width_of_a_terminal(no_columns: pytest.MonkeyPatch) -> None:
    """Output that is not a terminal has a width that is easy to read."""
    assert terminal_width(io.StringIO()) == 100
    no_columns.setenv("COLUMNS", "47")
    assert terminal_width(io.StringIO()) == 47
    no_columns.setenv("COLUMNS", "0")
    assert terminal_width(io.StringIO()) == 100
