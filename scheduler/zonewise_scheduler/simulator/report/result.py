"""What was simulated, and what one policy made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.simulator.summary import by_kind, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.simulator.history import History
    from zonewise_scheduler.simulator.summary import Summary


class TraceInfo(NamedTuple):
    """What was simulated."""

    trace: str
    """Where that came from: a file's name, or a mix's."""
    name: str
    options: Mapping[str, object]
    """What was asked for beyond the defaults."""
    problems: Sequence[str] = ()
    """What was left out of the trace, a sentence each."""
    partial: int = 0
    """Lines left out that tell of a part of a job which has a line of the whole."""


class PolicyResult(NamedTuple):
    """A policy, what happened under it, and the numbers."""

    policy: str
    rules: BackfillPolicy
    history: History
    summary: Summary
    kinds: Mapping[str, Summary]
    """Of the jobs of each kind, where they have kinds."""


def build_result(policy: str, rules: BackfillPolicy, history: History) -> PolicyResult:
    """Sum up what happened under a policy."""
    return PolicyResult(policy, rules, history, summarise(history), by_kind(history))
