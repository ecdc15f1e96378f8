"""Which queues a pass looks at after a change."""

from __future__ import annotations

from unittest import mock

from support.planner_stories import make_planner, queue, submission
from zonewise_scheduler.backfill import events
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.scheduling_pass import schedule
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
