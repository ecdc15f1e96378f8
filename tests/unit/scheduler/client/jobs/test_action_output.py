"""The output of commands that change jobs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zonewise_common.cli.command import CommandError
from zonewise_scheduler.client.jobs import action_output
from zonewise_scheduler.client.jobs.action_output import act_on_jobs, add_action_arguments
from zonewise_scheduler.client.jobs.job_actions import ActionResult

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def no_session(_: object) -> Generator[None]:
    yield


def test_control_characters_in_names_are_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The owner of a Workload may be of any kind, so its name may contain control characters."""
    monkeypatch.setattr(action_output, "open_session", no_session)
    parser = ArgumentParser()
    add_action_arguments(parser, done="all are done")
    results = {"a": ActionResult(True, "Job\x1b[2J ns/a is held"), "b": ActionResult(False, "no Job\x1b[2J ns/b")}
    assert act_on_jobs(parser.parse_args(["a", "b"]), lambda _, name: results[name]) == 1
    assert capsys.readouterr() == ("Job^[[2J ns/a is held\n", "zonewise: no Job^[[2J ns/b\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_result_that_cannot_be_printed_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full, the command does not change further jobs without output."""
    monkeypatch.setattr(action_output, "open_session", no_session)
    parser = ArgumentParser()
    add_action_arguments(parser, done="all are done")
    changed: list[str] = []

    def act(_: object, name: str) -> ActionResult:
        changed.append(name)
        return ActionResult(True, f"Job {name} is held")

    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(CommandError, match="cannot write to standard output: No space left on device"):
            act_on_jobs(parser.parse_args(["a", "b"]), act)
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space"):
            full.close()
    assert changed == ["a"]
