"""The trace of a simulation, and the result of one policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.simulator.summary import by_kind, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.simulator.history import History
    from zonewise_scheduler.simulator.summary import Summary


class TraceInfo(NamedTuple):
    """The simulated trace."""

    trace: str
    """Name of the file or the mix."""
    name: str
    options: Mapping[str, object]
    """Command options that differ from the defaults."""
    problems: Sequence[str] = ()
    """Problems of the trace, a sentence each."""
    partial: int = 0
    """Number of lines for parts of jobs, which are skipped because the log also has lines for the whole jobs."""


class PolicyResult(NamedTuple):
    """A policy with its history and summary."""

    policy: str
    rules: BackfillPolicy
    history: History
    summary: Summary
    kinds: Mapping[str, Summary]
    """Summary of each kind of job."""


def build_result(policy: str, rules: BackfillPolicy, history: History) -> PolicyResult:
    """Summarise the history of a policy."""
    return PolicyResult(policy, rules, history, summarise(history), by_kind(history))
