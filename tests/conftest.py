"""For all tests: which examples are tried, none is too slow, and the closing table of the grading, fact by fact."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest

# a machine that does something else for a moment has found no defect; each test has its own timeout
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# the same examples in each run, so that a change is what makes a test fail; `make test-random` looks for new ones
settings.register_profile("default", settings.get_profile("random"), derandomize=True)
settings.load_profile("random" if os.environ.get("HYPOTHESIS_PROFILE") in {"random", "long"} else "default")

_CASE = re.compile(r"test_fact\[(?P<snapshot>[^\]]+?)::(?P<fact>\w+)\]")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table where graded facts were among the tests."""
    counts: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            if match := _CASE.search(getattr(report, "nodeid", "")):
                counts.setdefault(match["fact"], Counter())[outcome] += 1
    if not counts:
        return
    terminalreporter.section("facts of captured machines: right / graded, not graded")
    total: Counter[str] = Counter()
    for fact, outcomes in sorted(counts.items()):
        total += outcomes
        terminalreporter.write_line(_row(fact, outcomes))
    terminalreporter.write_line(_row("all", total))


def _row(fact: str, outcomes: Counter[str]) -> str:
    graded = outcomes["passed"] + outcomes["failed"]
    return f"{fact:28} {outcomes['passed']:4} /{graded:4} {outcomes['skipped']:6}"
