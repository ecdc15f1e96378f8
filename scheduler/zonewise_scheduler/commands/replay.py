"""Runs `zonewise simulate --replay`: compares a recording's decisions with those of this version. Imports numpy."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.cli.command import CommandError
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_scheduler.simulator.replay.plan_differences import plan_differences
from zonewise_scheduler.simulator.replay.recording_reader import DamagedRecordingError
from zonewise_scheduler.simulator.replay.replayer import Replayer, SeveralWorkloadsError
from zonewise_scheduler.simulator.report.notes import bullet_list, count_noun

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import BinaryIO

    from zonewise_scheduler.simulator.replay.replayer import ReplayedPass

_OTHER_OPTIONS = (
    "policy", "compare", "reserve_after", "nodes", "exact", "whole_nodes", "jobs", "load", "seed", "start_latency",
    "rate", "release_latency", "grace", "deadlines", "json", "json_jobs", "plot", "forecast",
)  # fmt: skip


class _Totals(NamedTuple):
    """Counts of the passes of a recording."""

    passes: int = 0
    agreeing: int = 0
    interrupted: int = 0
    """Passes without a recorded plan."""
    first: float = inf
    last: float = -inf


def run_replay(arguments: Namespace) -> int:
    """Replay the recording `arguments.replay`, print the result and return the exit status. Raises CommandError."""
    for name in _OTHER_OPTIONS:
        if getattr(arguments, name) not in (None, False, []):
            raise CommandError(
                f"--{name.replace('_', '-')} does not work with --replay: the recording contains the "
                "policy and the settings"
            )
    if arguments.at is not None and arguments.explain is None:
        raise CommandError("--at works only with --explain")
    try:
        with open(arguments.replay, "rb") as file:
            work: Callable[[BinaryIO, Namespace], int] = _explain if arguments.explain is not None else _compare
            return work(file, arguments)
    except OSError as error:
        raise CommandError(f"{arguments.replay}: cannot be read: {error.strerror or error}") from error
    except DamagedRecordingError as error:
        raise CommandError(f"{arguments.replay}: {error}") from error


def _explain(file: BinaryIO, arguments: Namespace) -> int:
    at = inf if arguments.at is None else arguments.at
    try:
        reason = Replayer().explain(file, arguments.explain, at)
    except KeyError:
        when = "at the end of the recording" if at == inf else f"at {_time(at)}"
        write(f"{arguments.explain} is not in the queue {when}\n", STANDARD_OUTPUT)
        return 1
    except SeveralWorkloadsError as error:
        raise CommandError(f"{arguments.explain} {error}") from error
    write(f"{arguments.explain}: {reason}\n", STANDARD_OUTPUT)
    return 0


def _compare(file: BinaryIO, arguments: Namespace) -> int:
    replayer, totals, differing = Replayer(), _Totals(), list[str]()
    for replayed in replayer.replay(file):
        totals = _added(totals, replayed)
        if replayed.recorded is not None and not replayed.agrees:
            differences = "; ".join(plan_differences(replayed.recorded, replayed.replayed))
            differing.append(f"line {replayed.line}, {_time(replayed.at)}: {differences}")
    if replayer.failed and not arguments.quiet:
        head = f"{arguments.replay}: the planner rejects {count_noun(len(replayer.failed), 'entry', 'entries')}"
        lines = [f"line {failed.line}: {failed.message}" for failed in replayer.failed]
        sys.stderr.write(bullet_list(head, lines, whole=arguments.verbose))
    write(f"{arguments.replay}: {_summary(totals)}\n", STANDARD_OUTPUT)
    if differing:
        head = "the first difference changes what follows" if len(differing) > 1 else "the difference"
        write(bullet_list(head, differing, whole=arguments.verbose), STANDARD_OUTPUT)
    return 1 if differing else 0


def _added(totals: _Totals, replayed: ReplayedPass) -> _Totals:
    return _Totals(
        totals.passes + 1,
        totals.agreeing + replayed.agrees,
        totals.interrupted + (replayed.recorded is None),
        min(totals.first, replayed.at),
        max(totals.last, replayed.at),
    )


def _summary(totals: _Totals) -> str:
    if not totals.passes:
        return "no scheduling passes"
    passes = count_noun(totals.passes, "scheduling pass", "scheduling passes")
    text = f"{passes}, {_time(totals.first)} to {_time(totals.last)}; {totals.agreeing:,} agree"
    return f"{text}; {totals.interrupted:,} have no plan in the recording" if totals.interrupted else text


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
