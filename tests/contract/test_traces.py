"""Published logs: every job waits exactly as long as in the experiment that produced the log.

EASY, and EASY with shortest first (exact run times), of Gaussier, Glesser, Reis and Trystram, SC'15; the waits are
field 3 of each log. A separate simulator computed the means of the other policies. Of CTC and SDSC, `make test-long`
runs the simulations, which take a second each.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from support.guides import WAITS_BY_LOG, WAITS_BY_POLICY
from support.snapshots import PROJECT
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, policy_named
from zonewise_scheduler.simulator.pool_log import PROCESSORS
from zonewise_scheduler.simulator.runner import RunOptions, run_policy
from zonewise_scheduler.simulator.summary import Summary, summarise
from zonewise_scheduler.simulator.swf import SwfLog, read_swf

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.history import History

TRACES = PROJECT.parent / "shared" / "traces"
KTH, KTH_EXACT, CURIE = "KTH-SP2.easy", "KTH-SP2.easy-sjbf-exact", "CEA-Curie-sample"
CTC, SDSC = "CTC-SP2.easy", "SDSC-SP2.easy"
LOGS = [KTH, CTC, SDSC, CURIE]
SECONDS = {"min": 60, "h": 3600, "d": 86_400}

pytestmark = pytest.mark.skipif(
    not TRACES.exists(), reason=f"the logs are not beside the project ({TRACES.name}/ is absent)"
)


each_log = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in {CTC, SDSC} else []) for name in LOGS]
)


@functools.cache
def log(name: str) -> SwfLog:
    """Return a log, which is read once per process for all tests."""
    return read_swf(TRACES / f"{name}.swf.gz")


@functools.cache
def run(name: str, policy: str, *, exact: bool) -> History:
    return run_policy(log(name), policy_named(policy), RunOptions(exact=exact))


@functools.cache
def summary(name: str, policy: str) -> Summary:
    return summarise(run(name, policy, exact=False))


@pytest.mark.parametrize(
    ("name", "jobs", "processors"), [(KTH, 28_481, 100), (KTH_EXACT, 28_481, 100), (CURIE, 29_998, 93_312)]
)
def test_logs_are_read_completely(name: str, jobs: int, processors: int) -> None:
    found = log(name)
    assert (len(found.jobs), found.processors, found.problems, found.partial) == (jobs, processors, [], 0)


@pytest.mark.parametrize(
    ("name", "policy", "exact"),
    [
        (KTH, "easy", False),
        (KTH, "depth-1", False),
        (KTH_EXACT, "easy-sjbf", True),
        pytest.param(CTC, "easy", False, marks=pytest.mark.long),
        pytest.param("CTC-SP2.easy-sjbf-exact", "easy-sjbf", True, marks=pytest.mark.long),
        pytest.param(SDSC, "easy", False, marks=pytest.mark.long),
    ],
)
def test_every_job_waits_as_long_as_in_the_published_experiment(name: str, policy: str, exact: bool) -> None:
    waits = {job.name: job.wait for job in run(name, policy, exact=exact).jobs}
    assert waits == {str(one.job_number): one.wait_time for one in log(name).jobs}


@pytest.mark.parametrize(
    ("policy", "mean", "slowdown", "most"),
    [
        ("fifo", 353_776, 6_815, 946_685),
        ("greedy", 5_719, 71.4, 1_723_252),
        ("easy", 6_837, 92.6, 262_194),
        ("easy-sjbf", 5_904, 69.4, 284_815),
        ("conservative", 7_316, 89.0, 249_058),
    ],
)
def test_other_policies_reproduce_the_separate_simulator(
    policy: str, mean: float, slowdown: float, most: float
) -> None:
    """Policies that may choose between equal jobs agree to a thousandth."""
    found = summary(KTH, policy)
    assert found.wait_mean == pytest.approx(mean, rel=1e-3)
    assert found.bounded_slowdown == pytest.approx(slowdown, rel=1e-3)
    assert found.wait_max == most
    assert found.utilisation[PROCESSORS] == pytest.approx(0.6856, abs=5e-4)


@each_log
def test_the_default_loses_nothing_to_greedy(name: str) -> None:
    """The bounds are in docs/concepts/default-policy.md; no policy much shortens the longest wait of Curie's sample."""
    default, greedy, easy = (summary(name, policy) for policy in (DEFAULT_POLICY, "greedy", "easy"))
    assert default.wait_mean <= greedy.wait_mean
    assert default.wait_p95 <= min(easy.wait_p95, 1.25 * greedy.wait_p95)
    assert default.bounded_slowdown <= greedy.bounded_slowdown
    if name != CURIE:
        assert default.wait_max <= greedy.wait_max / 5


@pytest.mark.parametrize("policy", WAITS_BY_POLICY)
def test_waits_are_those_of_the_guide(policy: str) -> None:
    found = summary(KTH, policy)
    waits = (f"{found.wait_mean / 3600:.2f}", f"{found.wait_p95 / 3600:.1f}", f"{found.wait_max / 86400:.1f}")
    assert waits == WAITS_BY_POLICY[policy]


@each_log
def test_waits_are_those_of_the_table_of_all_logs(name: str) -> None:
    policies = {"greedy": "greedy", "EASY": "easy", "default": DEFAULT_POLICY}
    rows = WAITS_BY_LOG[3 * LOGS.index(name) :][:3]
    assert [row[1] for row in rows] == list(policies)
    assert rows[0][0].startswith("CEA Curie" if name == CURIE else name.partition(".")[0])
    for _, policy, mean, unit, p95, slowdown, longest, long_unit in rows:
        found = summary(name, policies[policy])
        seconds, long_seconds = SECONDS[unit], SECONDS[long_unit]
        assert f"{found.wait_mean / seconds:.{len(mean.partition('.')[2])}f}" == mean
        assert f"{found.wait_p95 / seconds:.1f}" == p95
        assert f"{found.bounded_slowdown:.1f}" == slowdown
        assert f"{found.wait_max / long_seconds:.1f}" == longest
