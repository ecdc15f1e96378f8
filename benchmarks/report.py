"""Runs a group of benchmarks, and puts what they print into docs/performance.md: `python -m benchmarks.report agent`.

Each benchmark of the group runs to its end. The exit status is 1 where one of them missed a number.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "performance.md"
GROUPS = {
    "agent": ("discovery", "agent"),
    "fit": ("fit_admission", "fit_nodes_at_once", "fit_gangs"),
    "extender": ("extender",),
    "queue": ("tas", "kueue", "planner", "backfill"),
}


def run(group: str) -> int:
    """Run the benchmarks of a group, print their output, and write it into the page; return the exit status."""
    outputs: list[str] = []
    status = 0
    for name in GROUPS[group]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{name}"], cwd=PROJECT, stdout=subprocess.PIPE, text=True
        )
        lines: list[str] = []
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
        status |= int(process.wait() != 0)
        outputs.append("".join(lines).rstrip())
    PAGE.write_text(_replaced(PAGE.read_text(), group, "\n".join(outputs)))
    return status


def _replaced(page: str, group: str, output: str) -> str:
    """Return the page with the section of a group replaced; raise ValueError where the page has none."""
    section = f"<!-- {group} -->\n{_machine()}\n\n```console\n$ make bench-{group}\n{output}\n```\n<!-- end -->"
    text, count = re.subn(rf"<!-- {group} -->\n.*?<!-- end -->", lambda _: section, page, count=1, flags=re.DOTALL)
    if not count:
        raise ValueError(f"{PAGE}: no section <!-- {group} -->")
    return text


def _machine() -> str:
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = model[1] if model else platform.machine()
    return f"{len(os.sched_getaffinity(0))} CPUs ({name}), Python {platform.python_version()}:"


if __name__ == "__main__":
    if sys.argv[1:2] != ["all"] and (len(sys.argv) != 2 or sys.argv[1] not in GROUPS):
        sys.exit(f"usage: python -m benchmarks.report {'|'.join(GROUPS)}|all")
    sys.exit(max(run(group) for group in (GROUPS if sys.argv[1] == "all" else [sys.argv[1]])))
