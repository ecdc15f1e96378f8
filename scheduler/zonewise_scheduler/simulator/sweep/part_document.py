"""The result of one run as a line of JSON, which a pod of a sweep leaves behind and the sweep collects.

    schemaVersion   "zonewise.dev/sweep-part/v1"
    policy, load, seed
    statistics, utilisation   as in RunResult

A pod writes it to its termination message. The sweep therefore needs no volume, and its pods need no permissions.
"""

from __future__ import annotations

import json
from typing import Any

from zonewise_scheduler.simulator.sweep.sweep_runs import STATISTICS, RunResult, SweepRun

SCHEMA_VERSION = "zonewise.dev/sweep-part/v1"
MAX_LENGTH = 4096
"""Maximum number of bytes of a termination message; the kubelet truncates a longer one
(pkg/kubelet/container/runtime.go MaxContainerTerminationMessageLength)."""


class PartError(ValueError):
    """The result is too long, or is not a result of the run."""


def part_text(run: SweepRun, result: RunResult) -> str:
    """Return the result of a run; floats are read back unchanged. Raises PartError if it is too long."""
    text = json.dumps({"schemaVersion": SCHEMA_VERSION, **run._asdict(), **result._asdict()}, separators=(",", ":"))
    if len(text) > MAX_LENGTH:
        raise PartError(
            f"{run}: the result has {len(text)} bytes, but a termination message holds at most {MAX_LENGTH}"
        )
    return text


def read_part(text: str, run: SweepRun) -> RunResult:
    """Return the result of a run.

    Raises PartError for any other text, for the result of another run, and for one that lacks a statistic.
    """
    try:
        part: Any = json.loads(text)
        if part["schemaVersion"] != SCHEMA_VERSION:
            raise PartError(f"{run}: schemaVersion: {part['schemaVersion']!r} is not {SCHEMA_VERSION}")
        done = SweepRun(part["policy"], part["load"], part["seed"])
        result = RunResult(dict(part["statistics"]), dict(part["utilisation"]))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise PartError(f"{run}: no result of a run: {text[:100]!r}") from error
    if done != run:
        raise PartError(f"{run}: the pod simulated another run: {done}")
    if missing := [name for name in STATISTICS if name not in result.statistics]:
        raise PartError(f"{run}: the result of another version of zonewise: it lacks {', '.join(missing)}")
    return result
