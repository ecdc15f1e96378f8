"""Runs accasim (PyPI) under FIFO, in the interpreter of an environment that contains it; arguments: log, processors.

The last line of output is JSON with accasim's waits by job number and its CPU seconds. The release of 2019 imports
names that have since moved. It writes files next to this script, which is therefore copied to a writable directory.
"""

from __future__ import annotations

import collections
import collections.abc
import importlib
import json
import sys
import time
from datetime import datetime
from pathlib import Path

collections.Mapping = collections.abc.Mapping  # pyright: ignore[reportAttributeAccessIssue]
if not hasattr(time, "clock"):
    time.clock = time.process_time  # pyright: ignore[reportAttributeAccessIssue]


def main(log: str, processors: int) -> None:
    """Run accasim."""
    allocators, schedulers, simulators = (
        importlib.import_module(f"accasim.base.{name}_class") for name in ("allocator", "scheduler", "simulator")
    )
    config = Path("system.json")
    config.write_text(json.dumps({"groups": {"node": {"core": 1}}, "resources": {"node": processors}}))
    dispatcher = schedulers.FirstInFirstOut(allocators.FirstFit())
    simulator = simulators.Simulator(log, str(config), dispatcher, statistics_output=False, show_statistics=False)
    started = time.process_time()
    written = simulator.start_simulation()
    seconds = time.process_time() - started
    print(json.dumps({"seconds": seconds, "waits": _waits(Path(written["sched-"]))}))


def _waits(plan: Path) -> dict[str, float]:
    """Return the waits by job number; lines have the form number;user;submitted__nodes__start;end;..."""
    waits: dict[str, float] = {}
    for line in plan.read_text().splitlines():
        job, _, run = line.split("__")
        number, _, submitted = job.split(";")
        start = run.partition(";")[0]
        waits[number] = (datetime.fromisoformat(start) - datetime.fromisoformat(submitted)).total_seconds()
    return waits


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
