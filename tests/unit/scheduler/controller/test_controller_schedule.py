"""The schedule of the controller on a virtual clock: reservations are met, and backfilled jobs delay no job.

Jobs run exactly as long as they declare.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE, ModelCluster
from support.queue_objects import cluster_queue_spec
from zonewise_common.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.quota.api.declared_walltime import MAX_RUN_ANNOTATION

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import ObjectKey

EPOCH = 1_800_000_000.0
MAX_EVENTS = 300


class Submission(NamedTuple):
    """A job and its time of submission."""

    at: int
    cpus: int
    run: int
    """Run time in seconds, which is also the declared walltime."""


class Schedule:
    """A model cluster and its controller on a virtual clock."""

    def __init__(self, policy: BackfillPolicy, cluster: ModelCluster | None = None) -> None:
        self.cluster = cluster or ModelCluster()
        self.now = EPOCH
        self.starts: dict[str, float] = {}
        """The first start of each job, in seconds from the beginning."""
        self.reserved_starts: dict[str, float] = {}
        """The first reserved start of each job that had a reservation."""
        self._runs: dict[str, int] = {}
        self._ends: dict[str, float] = {}
        self._queue = LiveQueue(self.cluster.listed, self.cluster.send, now=lambda: self.now, policy=policy)

    def submit(self, name: str, job: Submission, queue: str = "l") -> ObjectKey:
        """Submit a job now."""
        key = self.cluster.submit(name, job.cpus, at=job.at)
        annotations = {MAX_RUN_ANNOTATION: str(job.run)}
        labels = {"kueue.x-k8s.io/queue-name": queue}
        self.cluster.change(key, {"metadata": {"annotations": annotations, "labels": labels}})
        self._runs[name] = job.run
        return key

    def settle(self) -> None:
        """Let all controllers act at this time; record starts and reserved starts."""
        self._queue.settle(self.cluster.sync_jobs)
        for key in self.cluster.jobs:
            held = self.cluster.get(key)["spec"]["suspend"]
            if held:
                self._ends.pop(key.name, None)
            elif key.name not in self._ends and not self.cluster.is_finished(key):
                self.starts.setdefault(key.name, self.now - EPOCH)
                self._ends[key.name] = self.now + self._runs[key.name]
        state = self._queue.controller.feed.state
        for name, reservation in state.reservations.by_key.items():
            self.reserved_starts.setdefault(self._job_of(name), reservation.start - EPOCH)

    def advance(self, until: float = inf) -> None:
        """Advance to the next end of a job, the controller's wake time, or `until` (in seconds from the beginning)."""
        due = [*self._ends.values(), self._queue.controller.wake_at, EPOCH + until]
        self.now = max(self.now, min(due))
        for name in [name for name, end in self._ends.items() if end <= self.now]:
            del self._ends[name]
            self.cluster.complete(next(key for key in self.cluster.jobs if key.name == name))

    def go_to(self, at: float) -> None:
        """Let all controllers act until a time, in seconds from the beginning."""
        while self.now < EPOCH + at:
            self.advance(at)
            self.settle()

    def play(self, jobs: list[Submission]) -> None:
        """Submit each job at its time, and continue until all have ended."""
        waiting = sorted(enumerate(jobs), key=lambda entry: entry[1].at)
        for _ in range(MAX_EVENTS):
            while waiting and EPOCH + waiting[0][1].at <= self.now:
                number, job = waiting.pop(0)
                self.submit(f"j{number}", job)
            self.settle()
            if not waiting and all(map(self.cluster.is_finished, self.cluster.jobs)):
                return
            self.advance(waiting[0][1].at if waiting else inf)
        raise AssertionError("the jobs do not end")

    def _job_of(self, workload: str) -> str:
        obj = self._queue.controller.workload(workload)
        assert obj is not None
        return obj["metadata"]["ownerReferences"][0]["name"]


def test_a_backfilled_job_ends_before_the_reserved_start() -> None:
    """Of two later jobs that fit now, the one that ends in time starts; the other waits for the reserved job."""
    schedule = Schedule(BackfillPolicy())
    first, wide = Submission(0, 6, 100), Submission(1, 8, 50)
    schedule.play([first, wide, Submission(2, 2, 200), Submission(3, 2, 90)])
    assert schedule.reserved_starts["j1"] == 100
    assert schedule.starts == {"j0": 0, "j3": 3, "j1": 100, "j2": 150}


@example(jobs=[Submission(0, 7, 1), Submission(0, 2, 2), Submission(1, 2, 2)], policy=BackfillPolicy())
@given(
    jobs=st.lists(
        st.builds(Submission, at=st.integers(0, 200), cpus=st.integers(1, 8), run=st.integers(1, 120)),
        min_size=1,
        max_size=6,
    ),
    policy=st.sampled_from([BackfillPolicy(), BackfillPolicy(depth=3), BackfillPolicy(shortest_first=True)]),
)
def test_reserved_starts_are_met_to_the_second(jobs: list[Submission], policy: BackfillPolicy) -> None:
    """An end may be observed shortly after the deadline; in between, no other job uses the reserved amounts."""
    schedule = Schedule(policy)
    schedule.play(jobs)
    assert schedule.starts.keys() == {f"j{number}" for number in range(len(jobs))}
    late = {
        name: (schedule.starts[name], at) for name, at in schedule.reserved_starts.items() if schedule.starts[name] > at
    }
    assert not late


def test_borrowed_quota_is_reclaimed() -> None:
    """A job of the lender stops the borrower's job, which resumes once the lender's job has ended."""
    reclaiming: dict[str, Any] = {"cohortName": "c", "preemption": {"reclaimWithinCohort": "Any"}}
    cluster = ModelCluster(cpus=4, **reclaiming)
    cluster.create(CLUSTER_QUEUES, "", "lender", spec=cluster_queue_spec({"cpu": "4"}, **reclaiming))
    cluster.create(LOCAL_QUEUES, NAMESPACE, "lender", spec={"clusterQueue": "lender"})
    schedule = Schedule(BackfillPolicy(), cluster)
    borrower = schedule.submit("borrower", Submission(0, 8, 500))
    schedule.settle()
    assert not cluster.get(borrower)["spec"]["suspend"]
    schedule.go_to(100)
    schedule.submit("owner", Submission(100, 4, 60), "lender")
    schedule.settle()
    assert cluster.get(borrower)["spec"]["suspend"]
    assert schedule.starts["owner"] == 100
    schedule.go_to(160)
    assert not cluster.get(borrower)["spec"]["suspend"]
