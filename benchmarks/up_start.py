"""The start of `zonewise up` as a whole process: `python -m benchmarks.up_start`.

The time runs from the start of the process until the cluster is ready. Ready means that the controller and the extender
know its nodes, and a job can be created. The CPU time is a lower bound for a machine without other programs.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import NamedTuple

import psutil

from benchmarks.support.targets import Row, show

SIZES = ((4, 2.0), (1000, 10.0))
"""Numbers of nodes, and the seconds within which they must be ready."""
MAX_END = 3.0
"""Maximum seconds from SIGTERM to the end of the process."""
_RUNS = 3
_NODES = "hgx-h100"


class StartResult(NamedTuple):
    """The measurements of one start."""

    seconds: float
    cpu_seconds: float
    resident: int
    """Resident bytes when it is ready."""
    end_seconds: float


def measure(nodes: int) -> StartResult:
    """Start a cluster and end it. Raises RuntimeError if it does not start."""
    command = [sys.executable, "-m", "zonewise", "up", "--nodes", f"{nodes}x{_NODES}", "--port", "0",
               "--status-port", "0"]  # fmt: skip
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            first = program.stdout.readline()
            seconds = time.monotonic() - begin
            if not first.startswith("ready in"):
                raise RuntimeError(f"zonewise up does not start: {first}{program.stdout.read()}")
            process = psutil.Process(program.pid)
            times, resident = process.cpu_times(), process.memory_info().rss
            end = time.monotonic()
            program.terminate()
            program.stdout.read()
            program.wait()
        finally:
            program.kill()
    return StartResult(seconds, times.user + times.system, resident, time.monotonic() - end)


def main() -> int:
    """Run the measurement and print the table; return 1 if a target is missed."""
    rows: list[Row] = []
    for nodes, target in SIZES:
        results = [measure(nodes) for _ in range(_RUNS)]
        best = min(results)
        end = min(result.end_seconds for result in results)
        rows += [
            Row(f"{nodes:,} nodes: ready, fastest of {_RUNS}", f"{best.seconds:.1f} s", f"<= {target:.0f} s",
                best.seconds <= target),
            Row("... CPU", f"{best.cpu_seconds:.1f} s"),
            Row("... resident memory", f"{best.resident >> 20} MiB"),
            Row("... ended after SIGTERM", f"{end:.1f} s", f"<= {MAX_END:.0f} s", end <= MAX_END),
        ]  # fmt: skip
    return show(rows)


if __name__ == "__main__":
    sys.exit(main())
