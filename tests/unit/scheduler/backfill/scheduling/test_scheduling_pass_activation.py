"""Which queues a pass looks at after a change."""

from __future__ import annotations

from unittest import mock

import pytest

from support.planner_stories import make_planner, make_workload, queue, submission
from zonewise_common.k8s.labels import Requirement
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, BackfillPolicy, policy_named
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads


def test_an_end_activates_only_queues_in_which_workloads_wait() -> None:
    """A cohort may have hundreds of queues without any."""
    planner = make_planner([queue(name, 2, cohort="c") for name in ("busy", "idle", "other")], BackfillPolicy())
    for name, cpus in (("first", 4), ("second", 6)):
        events.submit(planner, submission(name, cpus, 100, queue="busy").workload, "busy")
        schedule(planner, 0)
    events.finish(planner, "/first")
    activate = PendingWorkloads.queue_inadmissible_workloads
    with mock.patch.object(PendingWorkloads, activate.__name__, autospec=True, side_effect=activate) as activated:
        assert [workload.key for workload in schedule(planner, 1).admitted] == ["/second"]
    assert [call.args[0].spec.name for call in activated.mock_calls] == ["busy"]


def test_an_end_makes_the_shapes_of_an_empty_queue_active() -> None:
    """A workload may be withdrawn in the same step as what it waited for ends. A later one of its shape starts."""
    planner = make_planner([queue("q", 4)], policy_named("greedy"))
    for name in ("first", "second"):
        events.submit(planner, submission(name, 4, 100, queue="q").workload, "q")
        schedule(planner, 0)
    events.withdraw(planner, "/second")
    events.finish(planner, "/first")
    schedule(planner, 1)
    events.submit(planner, submission("third", 4, 100, queue="q").workload, "q")
    assert [workload.key for workload in schedule(planner, 2).admitted] == ["/third"]


@pytest.mark.parametrize("policy", ["greedy", "fifo", DEFAULT_POLICY])
def test_an_end_does_not_activate_workloads_of_namespaces_that_the_queue_does_not_select(policy: str) -> None:
    """Otherwise, each of them would be head of a cycle, and would be rejected again."""
    selecting = queue("q", 4)._replace(namespace_selector=(Requirement("team", "In", ("a",)),))
    planner = make_planner([selecting], policy_named(policy))
    events.reconfigure(planner, QueueConfiguration((selecting,), namespaces={"ns": {"team": "b"}, "": {"team": "a"}}))
    events.submit(planner, submission("own", 4, 100).workload, "q")
    for name in ("x", "y", "z"):
        events.submit(planner, make_workload(name, 4), "q")
    schedule(planner, 0)
    events.submit(planner, submission("later", 4, 100).workload, "q")
    events.finish(planner, "/own")
    assert list(schedule(planner, 1).decisions) == ["/later"]
    events.change_namespaces(planner, {"ns": {"team": "a"}})
    events.finish(planner, "/later")
    [admitted] = schedule(planner, 2).admitted
    assert admitted.namespace == "ns"
