"""Runs one policy over a trace, and shows its progress on the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zonewise_common.cli.command import CommandError
from zonewise_scheduler.simulator.cluster_simulation import SimulationError
from zonewise_scheduler.simulator.report.progress import ProgressLine, terminal_width
from zonewise_scheduler.simulator.runner import RunOptions, run_policy

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.simulator.history import History
    from zonewise_scheduler.simulator.scenario import Scenario
    from zonewise_scheduler.simulator.swf import SwfLog


def run_with_progress(
    source: SwfLog | Scenario, title: str, policy: BackfillPolicy, options: RunOptions, *, quiet: bool
) -> History:
    """Return the history of a policy; progress goes to standard error. Raises CommandError."""
    visible = not quiet and sys.stderr.isatty()
    progress = ProgressLine(sys.stderr, title, terminal_width(sys.stderr)) if visible else None
    try:
        return run_policy(source, policy, options, progress and progress.update)
    except SimulationError as error:
        raise CommandError(f"{title}: {error}") from error
    finally:
        if progress is not None:
            progress.clear()
