"""Settings for all tests: example profiles, required programs, and the final table of graded facts."""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from support.distribution import FileDistribution
from support.profiles import PROFILE
from support.programs import PROGRAMS, find_program, missing_program
from support.sharing import SHARED_FIXTURES, end_unused

if TYPE_CHECKING:
    from collections.abc import Generator

    from xdist.remote import Producer

# no deadline for an example: a loaded machine is not a defect, and each test has its own timeout
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# the same examples in each run, so that only a change makes a test fail; `make test-random` tries new ones, and five
# times as many
settings.register_profile("default", settings.get_profile("random"), derandomize=True)
settings.register_profile("mutants", settings.get_profile("default"))
settings.register_profile("quick", settings.get_profile("default"), max_examples=1)
settings.load_profile("random" if PROFILE in {"random", "long"} else PROFILE)

_SHARES = {"default": 5, "mutants": 3}
"""These profiles try one of this many examples: repeated runs try the same ones, so more would find nothing."""
_CASE = re.compile(r"test_fact\[(?P<snapshot>[^\]]+?)::(?P<fact>\w+)\]")


def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for `-n auto`: while one waits for programs, another one works."""
    return 2 * len(os.sched_getaffinity(0))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileDistribution | None:
    """Return the distribution of tests among workers, unless the command line demands another one."""
    return FileDistribution(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_configure() -> None:
    """Set the environment of programs. Commands keep no token, since that of one test's server would reach another.

    Fail at once if `make test-servers` lacks a program; otherwise its tests would all be skipped.
    """
    os.environ["ZONEWISE_CACHE_DIR"] = ""
    # servers in Go run for seconds here; with the default of 100, an eighth of their time is garbage collection
    os.environ["GOGC"] = "400"
    if os.environ.get("ZONEWISE_REQUIRE_SERVERS"):
        missing = [missing_program(name) for name in PROGRAMS if find_program(name) is None]
        if missing:
            pytest.exit("\n".join(missing), returncode=1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude modules and tests from garbage collection: they are the most objects, and none of them is freed.

    Collect the garbage of tests rarely: it is little, and the default threshold of 700 costs an eighth of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(100_000)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, object]:
    """Let each worker begin with other files: in a new checkout, each compiles a part of the modules for the others."""
    report = yield
    worker: dict[str, Any] | None = getattr(collector.config, "workerinput", None)
    if worker is not None and isinstance(collector, pytest.Directory):
        start = len(report.result) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result = report.result[start:] + report.result[:start]
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In the default profile, run a fifth of a property's examples; in the quick profile, one.

    In the quick profile, each unit test has one parameter set, and no test uses a real server. In any profile, tests of
    files with the same shared server are neighbours.
    """
    items.sort(key=lambda item: (_without_shared_server(item), item.path.parts))
    if PROFILE == "quick":
        _choose_quick(config, items)
    if PROFILE in {"quick", *_SHARES}:
        functions = {id(function): function for item in items if (function := getattr(item, "obj", None)) is not None}
        for function in functions.values():
            _limit_examples(function, "_hypothesis_internal_use_settings")
        for state_machine in {cls for item in items if (cls := getattr(item, "cls", None)) is not None}:
            _limit_examples(state_machine, "settings")


def _without_shared_server(item: pytest.Item) -> bool:
    return not any(hasattr(getattr(item, "module", None), fixture) for fixture in SHARED_FIXTURES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """End shared servers that the next test's file does not use."""
    try:
        return (yield)
    finally:
        end_unused(getattr(nextitem, "module", None))


def _choose_quick(config: pytest.Config, items: list[pytest.Item]) -> None:
    functions: set[str] = set()
    chosen: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        function, _, parameters = item.nodeid.partition("[")
        is_first = function not in functions or "tests/unit" not in function
        functions.add(function)
        (chosen if is_first and "real" not in parameters else deselected).append(item)
    config.hook.pytest_deselected(items=deselected)
    items[:] = chosen


def _limit_examples(test: Any, attribute: str) -> None:
    """Lower the number of a property's examples, even if the property sets its own."""
    own = getattr(test, attribute, None)
    if isinstance(own, settings):
        limit = 1 if PROFILE == "quick" else -(-own.max_examples // _SHARES[PROFILE])
        setattr(test, attribute, settings(own, max_examples=limit))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table if the tests include graded facts."""
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
