"""`zonewise simulate --replay`: it compares the decisions in a recording of the live queue, and explains workloads."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from support.cli_runner import CliRunner
from support.recordings import START, recorded

if TYPE_CHECKING:
    from pathlib import Path

STORY = [("submit", 5), ("submit", 5), ("wait", 0), ("complete", 0), ("wait", 0)]


class Replaying(CliRunner):
    """A recording in a directory, and the command that runs on it."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(directory, capsys, "simulate")
        self.lines = [line.decode() for line in recorded(STORY)]

    def recording(self, *, changed: tuple[str, str] = ("", "")) -> str:
        """Write the recording, with one text replaced in the last plan that contains it."""
        lines, (old, new) = list(self.lines), changed
        if old:
            i = max(i for i, line in enumerate(lines) if line.startswith('{"plan"') and old in line)
            lines[i] = lines[i].replace(old, new)
        return self.write("run.jsonl", "".join(lines))


@pytest.fixture
def replaying(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Replaying:
    return Replaying(tmp_path, capsys)


def test_a_recording_that_agrees_ends_with_status_0(replaying: Replaying) -> None:
    path = replaying.recording()
    printed = replaying.run("--replay", path)
    assert (printed.status, printed.err) == (0, "")
    entries = [json.loads(line) for line in replaying.lines]
    times = [datetime.fromtimestamp(entry["at"], UTC) for entry in entries if entry.get("entry") == "pass"]
    first, last = (time.strftime("%Y-%m-%dT%H:%M:%S.000Z") for time in (times[0], times[-1]))
    assert printed.out == f"{path}: {len(times)} scheduling passes, {first} to {last}; {len(times)} agree\n"


def test_a_difference_is_named_with_status_1(replaying: Replaying) -> None:
    path = replaying.recording(changed=("job-j1-", "job-j7-"))
    printed = replaying.run("--replay", path)
    assert (printed.status, printed.err) == (1, "")
    head, difference = printed.out.splitlines()[1:]
    assert head == "the difference:"
    assert ", 2027-01-15T08:02:00.000Z: admitted in the recording only: ns/job-j7-" in difference
    assert "; admitted in the replay only: ns/job-j1-" in difference


def test_a_workload_is_explained_at_a_time(replaying: Replaying) -> None:
    path = replaying.recording()
    printed = replaying.run("--replay", path, "--explain", "ns/j1", "--at", "2027-01-15T08:01:10Z")
    assert (printed.status, printed.err) == (0, "")
    assert printed.out.startswith("ns/j1: needs 6 CPUs of flavor f; ClusterQueue q has 2 of its 8 left")
    assert replaying.run("--replay", path, "--explain", "ns/j1", "--at", START + 70).out == printed.out
    unknown = replaying.run("--replay", path, "--explain", "ns/j9")
    assert (unknown.status, unknown.out) == (1, "ns/j9 is not in the queue at the end of the recording\n")


def test_a_name_of_several_jobs_ends_with_status_2_and_their_workloads(replaying: Replaying) -> None:
    submit = next(line for line in replaying.lines if '"name":"job-j1-' in line)
    twin = re.sub('"name":"job-j1-[0-9a-f]{5}"', '"name":"jobset-j1-0a1b2"', submit).replace('"uid":"', '"uid":"twin-')
    path = replaying.write("run.jsonl", "".join([*replaying.lines, twin]))
    message = replaying.usage_error("--replay", path, "--explain", "ns/j1")
    assert re.fullmatch(
        r"ns/j1 matches several Workloads: use one of ns/jobset-j1-0a1b2, ns/job-j1-[0-9a-f]{5}", message
    )


def test_a_damaged_recording_ends_with_status_2_and_its_line(replaying: Replaying) -> None:
    path = replaying.write("run.jsonl", "".join([*replaying.lines, "{\n"]))
    assert replaying.usage_error("--replay", path).startswith(f"{path}: line {len(replaying.lines) + 1}: no JSON: ")
    assert replaying.usage_error("--replay", path, "--explain", "ns/j1").startswith(f"{path}: line ")


def test_an_entry_that_is_rejected_is_named_on_standard_error(replaying: Replaying) -> None:
    broken = '{"entry":"submit","workload":{"metadata":{"name":"x"},"spec":{"podSets":[{"count":-1}]}}}\n'
    path = replaying.write("run.jsonl", "".join([*replaying.lines, broken]))
    printed = replaying.run("--replay", path)
    assert printed.status == 0
    assert printed.err.startswith(f"{path}: the planner rejects 1 entry:\n  line {len(replaying.lines) + 1}: submit")
    assert replaying.run("--replay", path, "--quiet").err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("log.swf", "--replay", "r"), "log.swf: --replay takes no TRACE: remove one of them"),
        ((), "TRACE is missing; see `zonewise simulate --help`"),
        (("hpc", "--explain", "a/b"), "--explain works only with --replay"),
        (("--replay", "r", "--at", "5"), "--at works only with --explain"),
        (
            ("--replay", "r", "--policy", "fifo"),
            "--policy does not work with --replay: the recording contains the policy and the settings",
        ),
        (("--replay", "r", "--image", "i"), "--image works only with --on-cluster or --gather"),
        (("--replay", "/nowhere/r"), "/nowhere/r: cannot be read: No such file or directory"),
        (
            ("--replay", "r", "--explain", "a/b", "--at", "noon"),
            "argument --at: 'noon' is not a time, such as 2026-11-22T12:00:00Z; see `zonewise simulate --help`",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_named(replaying: Replaying, arguments: tuple[str, ...], message: str) -> None:
    assert replaying.usage_error(*arguments) == message
