"""Runs a group of benchmarks, and writes their output into docs/performance.md: `python -m benchmarks.report agent`.

Each benchmark of the group runs to its end. The exit status is 1 if one of them missed a target. It is 2 if one of them
measured nothing because a program is absent; the page then remains unchanged.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.support.targets import NOT_MEASURED

PROJECT = Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "performance.md"
GROUPS = {
    "agent": ("discovery", "agent", "agent_health", "agent_pod_end"),
    "fit": ("fit_admission", "fit_reports", "fit_nodes_at_once", "fit_gangs"),
    "extender": ("extender", "extender_shapes", "connections"),
    "queue": ("tas", "kueue", "planner", "backfill"),
    "churn": ("churn",),
    "live": ("live_queue", "live_cluster", "gang_start", "thousand_jobs", "queue_outcome", "gang_turnover"),
    "up": ("up_start",),
    "page": ("page",),
    "placing": ("packing", "bursts", "room_to_binding"),
    "soak": ("soak",),
    "soak-queue": ("queue_soak",),
}


_COMMANDS = {"soak": "make soak", "soak-queue": "make soak-queue"}
_LONG = ("soak", "soak-queue")
"""Groups that `all` omits: each takes 20 minutes."""


def run(group: str) -> int:
    """Run the benchmarks of a group, print their output and write it into the page; return the exit status."""
    machine = _machine()
    outputs: list[str] = []
    statuses: list[int] = []
    for name in GROUPS[group]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{name}"], cwd=PROJECT, stdout=subprocess.PIPE, text=True
        )
        lines: list[str] = []
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
        statuses.append(process.wait())
        outputs.append("".join(lines).rstrip())
    if NOT_MEASURED in statuses:
        print(f"the section {group!r} of {PAGE.relative_to(PROJECT)} stays as it is: a program is absent")
        return NOT_MEASURED
    PAGE.write_text(_replaced(PAGE.read_text(), group, machine, "\n".join(outputs)))
    return int(any(statuses))


def _replaced(page: str, group: str, machine: str, output: str) -> str:
    """Return the page with the section of a group replaced; raise ValueError if the page lacks it."""
    command = _COMMANDS.get(group, f"make bench-{group}")
    section = f"<!-- {group} -->\n{machine}\n\n```console\n$ {command}\n{output}\n```\n<!-- end -->"
    text, count = re.subn(rf"<!-- {group} -->\n.*?<!-- end -->", lambda _: section, page, count=1, flags=re.DOTALL)
    if not count:
        raise ValueError(f"{PAGE}: no section <!-- {group} -->")
    return text


def _machine() -> str:
    """Return a description of the machine, and of the load from other programs."""
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = model[1] if model else platform.machine()
    load = os.getloadavg()[0]
    cpus = len(os.sched_getaffinity(0))
    return f"{cpus} CPUs ({name}), Python {platform.python_version()}, load average {load:.1f} before the run:"


def _selected(argument: str) -> list[str]:
    return [group for group in GROUPS if group not in _LONG] if argument == "all" else [argument]


if __name__ == "__main__":
    if sys.argv[1:2] != ["all"] and (len(sys.argv) != 2 or sys.argv[1] not in GROUPS):
        sys.exit(f"usage: python -m benchmarks.report {'|'.join(GROUPS)}|all")
    sys.exit(max(run(group) for group in _selected(sys.argv[1])))
