"""Forecasts: the planner simulates the queues forward."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.planner_stories import Story, queue, submission
from unit.scheduler.backfill.reservations.test_reservation import POLICIES, queue_lists, submission_lists
from zonewise_scheduler.backfill.forecast import sample_paths
from zonewise_scheduler.backfill.forecast.arrival_history import DAY, ArrivalHistory
from zonewise_scheduler.backfill.forecast.inputs import ForecastInputs
from zonewise_scheduler.backfill.forecast.run_time_history import RunTimeHistory
from zonewise_scheduler.backfill.forecast.run_time_samples import MIN_SAMPLES, SAMPLES
from zonewise_scheduler.backfill.forecast.sample_paths import (
    EXACT,
    MAX_GRAIN,
    SamplePathOptions,
    StartSamples,
    SubmittedWorkload,
    bounded_options,
    sample_starts,
)
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, BackfillPolicy, policy_named
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from support.planner_stories import Submission
    from zonewise_scheduler.backfill.scheduling.known_admissions import KnownAdmissions
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Plan
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue

ANN = ("ann", "q", "solve")


def learned(*runs: float) -> ForecastInputs[SubmittedWorkload]:
    """Return the run times of ann, who declares 100 s, without any submissions."""
    times = RunTimeHistory()
    for run in runs:
        times.observe(ann_submits("before", 1, 100).workload, run)
    return ForecastInputs(times, ArrivalHistory())


def starts_by_key(
    planner: PlannerState,
    now: float,
    inputs: ForecastInputs[SubmittedWorkload] | None = None,
    options: SamplePathOptions = EXACT,
) -> dict[str, set[float]]:
    """Return the distinct sampled starts of each pending workload."""
    sampled = sample_starts(planner, now, learned() if inputs is None else inputs, options=options)
    return {key: set(samples.starts) for key, samples in sampled.items()}


def ann_submits(name: str, cpus: int, limit: float, *, at: float = 0) -> Submission:
    one = submission(name, cpus, limit, at=at)
    return one._replace(workload=replace(one.workload, history_keys=ANN))


def state_after(
    *submissions: Submission, queues: list[ClusterQueue] | None = None, policy: str = "greedy"
) -> PlannerState:
    """Return the state after passes at 0, with the workloads pending or running on 8 CPUs."""
    planner = new_state(Snapshot([queue("q", 8)] if queues is None else queues), policy_named(policy, 0.0))
    for one in submissions:
        events.submit(planner, one.workload, one.queue)
        schedule(planner, 0)
    return planner


def test_a_sample_is_the_queue_simulated_forward() -> None:
    """The workloads of ann declare 100 s but run for 10 to 30 s; two of them precede the last one."""
    planner = state_after(*(ann_submits(name, 8, 100) for name in "abc"))
    sampled = starts_by_key(planner, 5, learned(10, 20, 30))
    assert sampled["/b"] == {10, 20, 30}
    assert {20, 60} < sampled["/c"] <= {20, 30, 40, 50, 60}


def test_without_a_history_workloads_run_for_their_walltimes() -> None:
    planner = state_after(*(ann_submits(name, 8, 100) for name in "abc"))
    assert starts_by_key(planner, 5) == {"/b": {100}, "/c": {200}}


def test_a_start_that_depends_on_unknown_run_times_is_unknown() -> None:
    planner = state_after(submission("a", 5, inf), submission("b", 8, 10))
    assert starts_by_key(planner, 1) == {"/b": {inf}}


def test_a_workload_that_never_fits_has_an_unknown_start() -> None:
    assert starts_by_key(state_after(submission("a", 9, 1)), 1) == {"/a": {inf}}


def test_an_overrun_workload_is_expected_to_end_soon() -> None:
    planner = state_after(submission("a", 8, 10), submission("b", 8, 10))
    assert starts_by_key(planner, 50) == {"/b": {50}}


def test_victims_are_pending_again_at_once() -> None:
    """After their preemptor has ended, they run again from the beginning."""
    specs = [queue("q", 8, preemption=ClusterQueuePreemption("LowerPriority"))]
    planner = state_after(
        submission("a", 8, 10), submission("high", 8, 20, priority=1), submission("later", 8, 5), queues=specs
    )
    assert planner.running_workloads.stopping == {"/a"}
    sampled = starts_by_key(planner, 4)
    assert (sampled["/high"], sampled["/later"]) == ({4}, {34})


def test_a_reservation_bounds_the_samples() -> None:
    """In a sample path, too, no workload starts if it would delay the reservation."""
    planner = state_after(submission("a", 6, 10), submission("b", 8, 10), policy="easy")
    sampled = sample_starts(planner, 2, learned())["/b"]
    assert sampled.bound == max(sampled.starts) == planner.reservations_by_start[0].start == 10


def test_the_sample_path_ends_when_the_workloads_have_started() -> None:
    """The sample path is limited to the decisions that the second workload needs, so later starts are unknown."""
    planner = state_after(*(submission(name, 8, 10) for name in "abcd"))
    assert sample_starts(planner, 0, learned(), ["/b"]).keys() == {"/b"}
    sampled = starts_by_key(planner, 0, options=SamplePathOptions(max_decisions=2))
    assert (sampled["/b"], sampled["/c"]) == ({10}, {inf})


def test_no_sample_path_begins_and_no_decision_follows_once_the_time_is_over() -> None:
    """The time is over from the start: the first sample path makes its first decision, and no other one begins."""
    planner, inputs = state_after(*(submission(name, 8, 10) for name in "abc")), learned(10, 20)
    sampled = sample_starts(planner, 10, inputs, options=SamplePathOptions(is_over=lambda: True))
    assert sampled == {"/b": StartSamples("q", (inf,)), "/c": StartSamples("q", (inf,))}
    assert len(sample_starts(planner, 10, inputs)["/b"].starts) == SAMPLES


def test_a_workload_that_is_not_pending_has_no_samples() -> None:
    with pytest.raises(KeyError):
        sample_starts(state_after(submission("a", 8, 10)), 0, learned(), ["/a"])


def test_the_submissions_of_the_previous_day_are_replayed() -> None:
    """Each day at the same hour, shorter workloads arrive and delay the longer one; each runs for half its walltime."""
    arrivals: ArrivalHistory[SubmittedWorkload] = ArrivalHistory()
    for number in range(5):
        short = submission("", 8, 60).workload
        arrivals.observe(number, SubmittedWorkload(short, "q"), 10.0 + number)
        arrivals.observe_end(number, 30)
    inputs = ForecastInputs(RunTimeHistory(), arrivals)
    starts: list[set[float]] = []
    for now in (0.0, 10.0 + DAY):
        planner = new_state(Snapshot([queue("q", 8)]), policy_named(DEFAULT_POLICY))
        for one in (submission("a", 8, 100, at=now), submission("long", 8, 500, at=now)):
            events.submit(planner, one.workload, one.queue)
            schedule(planner, now)
        starts.append({start - now for start in starts_by_key(planner, now, inputs)["/long"]})
    assert starts == [{100}, {100 + 4 * 30}]


def test_a_replayed_submission_has_the_history_keys_of_its_job() -> None:
    """They select the earlier runs that predict its run time."""
    arrivals: ArrivalHistory[SubmittedWorkload] = ArrivalHistory()
    keys, now = ("ns", "q", "job"), 10.0 + DAY
    for time in (10.0, 11.0):  # the first one is a day old, the other one is replayed
        arrivals.observe(time, SubmittedWorkload(submission("", 8, 60).workload, "q", keys), time)
    planner = new_state(Snapshot([queue("q", 8)]), policy_named(DEFAULT_POLICY))
    for one in (submission("a", 8, 100, at=now), submission("long", 8, 500, at=now)):
        events.submit(planner, one.workload, one.queue)
        schedule(planner, now)
    with mock.patch.object(sample_paths, "submit", wraps=sample_paths.submit) as submit:
        sample_starts(planner, now, ForecastInputs(RunTimeHistory(), arrivals), ["/long"])
    assert {call.args[1].history_keys for call in submit.call_args_list} == {keys}


def test_a_submission_with_a_negative_run_time_does_not_stop_the_sample_path() -> None:
    arrivals: ArrivalHistory[SubmittedWorkload] = ArrivalHistory()
    for key, time, run_time in (("first", -100.0, 30.0), ("back", 5.0, -3600.0)):
        arrivals.observe(key, SubmittedWorkload(submission("", 1, 60).workload, "q"), time)
        arrivals.observe_end(key, run_time)
    planner = new_state(Snapshot([queue("q", 8)]), policy_named("greedy", 0.0))
    for one in (submission("a", 6, 100, at=DAY), submission("long", 8, 500, at=DAY)):
        events.submit(planner, one.workload, one.queue)
        schedule(planner, DAY)
    inputs = ForecastInputs(RunTimeHistory(), arrivals)
    assert starts_by_key(planner, DAY, inputs, bounded_options(planner)) == {"/long": {DAY + 100}}


def test_a_submission_to_a_removed_queue_is_not_an_error() -> None:
    arrivals: ArrivalHistory[SubmittedWorkload] = ArrivalHistory()
    arrivals.observe("old", SubmittedWorkload(submission("", 8, 60).workload, "gone"), -DAY + 5.0)
    planner = state_after(submission("a", 8, 100), submission("b", 8, 500))
    assert starts_by_key(planner, 0, ForecastInputs(RunTimeHistory(), arrivals)) == {"/b": {100}}


def test_many_workloads_are_sampled_less_often() -> None:
    few, many = (
        state_after(*(submission(f"{index}", 8, 1) for index in range(number)), policy="fifo") for number in (3, 400)
    )
    inputs, once = learned(10), SamplePathOptions(max_decisions=1)
    for running, pending, paths in ((0, 61, 16), (1, 61, 15), (61, 1, 15), (40, 59, 10), (59, 40, 10)):
        planner = state_after(*(submission(f"r{index}", 0, 1) for index in range(running)))
        for index in range(pending):
            events.submit(planner, submission(f"{index}", 8, 1).workload, "q")
        assert (len(planner.running), len(planner.pending)) == (running, pending)
        assert len(sample_starts(planner, 0, inputs, ["/0"], once)["/0"].starts) == paths
    assert len(sample_starts(few, 0, inputs, ["/1"])["/1"].starts) == SAMPLES
    assert len(sample_starts(many, 0, inputs, ["/1"])["/1"].starts) == MIN_SAMPLES
    assert len(sample_starts(few, 0, learned(), ["/1"])["/1"].starts) == 1


def test_sampling_is_deterministic() -> None:
    planner = state_after(*(ann_submits(name, 8, 100) for name in "abcd"))
    inputs = learned(10, 20, 30, 40, 50)
    assert sample_starts(planner, 0, inputs) == sample_starts(planner, 0, inputs)


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=30), st.sampled_from([0.01, 0.05, 0.2]))
def test_a_grain_changes_nothing_if_ends_are_far_apart(limits: list[int], grain: float) -> None:
    planner = state_after(*(submission(f"{index:02}", 8, limit) for index, limit in enumerate(limits)))
    assert starts_by_key(planner, 0, options=SamplePathOptions(grain)) == starts_by_key(planner, 0)


@pytest.mark.parametrize(("workloads", "grain"), [(0, 0.0), (250, 0.0), (625, 0.05), (1000, 0.1), (1500, 0.1)])
def test_sample_paths_of_many_workloads_merge_events(workloads: int, grain: float) -> None:
    """Pending and running workloads count alike."""
    planner = state_after(*(submission(f"{index}", 1, 10) for index in range(workloads)))
    assert bounded_options(planner).time_grain == pytest.approx(grain)


@pytest.mark.parametrize(
    ("preemption", "fair_sharing"),
    [(ClusterQueuePreemption(within_cluster_queue="LowerPriority"), False), (ClusterQueuePreemption(), True)],
)
def test_sample_paths_with_slow_passes_merge_events(preemption: ClusterQueuePreemption, fair_sharing: bool) -> None:
    settings = DEFAULT_SETTINGS._replace(fair_sharing=fair_sharing)
    snapshot = Snapshot([queue("q", 8)._replace(preemption=preemption)])
    assert bounded_options(new_state(snapshot, policy_named("greedy"), settings)).time_grain == MAX_GRAIN


def test_a_grain_merges_ends_that_are_close() -> None:
    first = (submission(f"{end}", 1, end) for end in range(96, 104))
    planner = state_after(*first, submission("next", 4, 10), submission("z", 8, 1))
    sampled = starts_by_key(planner, 0, options=SamplePathOptions(0.1))
    assert (sampled["/next"], sampled["/z"]) == ({99.5}, {109.5})
    exact = starts_by_key(planner, 0)
    assert (exact["/next"], exact["/z"]) == ({99}, {109})


def test_a_workload_that_starts_in_the_sample_path_may_be_preempted_later() -> None:
    """Admissions may count as assumed until they are observed; a sample path observes them at once."""
    specs = [queue("q", 8, preemption=ClusterQueuePreemption("LowerPriority"))]
    planner = new_state(Snapshot(specs), policy_named("greedy", 0.0))
    planner.assumed = set()
    for each in (
        submission("first", 4, 100, priority=9),
        submission("wide", 8, 100, priority=9),
        submission("before", 4, 10),
        submission("low", 4, 1000),
    ):
        events.submit(planner, each.workload, each.queue)
        schedule(planner, 0)
    sampled = starts_by_key(planner, 0)
    assert (sampled["/low"], sampled["/wide"]) == ({10}, {100})


# --- random histories


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 12), st.integers(1, 5), st.integers(0, 2)),
        min_size=30,
        max_size=50,
    )
)
@settings(max_examples=20)
def test_no_workload_is_preempted_in_the_instant_of_its_start(workloads: list[tuple[int, int, int, int]]) -> None:
    """In the live queue, a workload that has just started is not preempted for some seconds either."""
    reclaim = ClusterQueuePreemption("LowerPriority", "Any")
    specs = [queue(f"{number}", 4, cohort="c", preemption=reclaim) for number in range(6)]
    planner = new_state(Snapshot(specs), policy_named("greedy", 0.0), DEFAULT_SETTINGS._replace(fair_sharing=True))
    planner.assumed = set()
    started: set[tuple[float, str]] = set()

    def record(state: PlannerState, now: float, *, known: KnownAdmissions) -> Plan:
        plan = schedule(state, now, known=known)
        assert not started & {(now, victim.workload.key) for victim in plan.victims}
        started.update((now, workload.key) for workload in plan.admitted)
        return plan

    for number, (where, cpus, run, priority) in enumerate(workloads):
        one = submission(f"{number}", cpus, 100 * run, queue=f"{where}", priority=priority)
        events.submit(planner, one.workload, one.queue)
    with mock.patch.object(sample_paths, "schedule", record):
        sample_starts(planner, 0, learned())


@pytest.mark.parametrize(
    "policy", [*POLICIES, BackfillPolicy(reserve_after=inf), BackfillPolicy(overtaking=False)], ids=str
)
@settings(max_examples=40)  # takes a forecast after every pass
@given(queue_lists(preemption=True), submission_lists(most=7), st.lists(st.integers(1, 10), max_size=10))
def test_samples_respect_reservations_and_change_nothing(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission], runs: list[int]
) -> None:
    def ask(planner: PlannerState, now: float) -> None:
        sampled = sample_starts(planner, now, inputs)
        assert sampled.keys() == planner.pending.keys()
        for key, one in sampled.items():
            assert all(now <= start <= one.bound for start in one.starts)
            reservation = planner.reservations.by_key.get(key)
            assert one.bound == (inf if reservation is None else max(reservation.start, now))

    inputs = learned(*runs)
    submissions = [one._replace(workload=replace(one.workload, history_keys=ANN)) for one in submissions]
    watched = Story(new_state(Snapshot(specs), policy), watch=ask).play(submissions)
    assert decisions_of(watched) == decisions_of(Story(new_state(Snapshot(specs), policy)).play(submissions))


def decisions_of(played: Story) -> list[object]:
    """Return the decisions without the workloads, which are compared by identity."""
    return [
        (
            now,
            [workload.key for workload in step.admitted],
            [(victim.workload.key, victim.preemptor.key, victim.reason) for victim in step.victims],
            [(one.workload.key, one.start, one.waits_for) for one in step.reserved],
            {key: one.status for key, one in step.decisions.items()},
        )
        for now, step in played.plans
    ]


EXACT_POLICIES = [*POLICIES[:-1], BackfillPolicy(reserve_after=inf), BackfillPolicy(overtaking=False)]


class Sampled(NamedTuple):
    """A sample with exact run times and no later arrivals, compared with the actual start."""

    wait: float
    error: float

    @classmethod
    def of(cls, now: float, sample: float, start: float) -> Sampled:
        """Return the sample of a workload with its actual start; equal ones may both be infinite."""
        return cls(start - now, 0.0 if sample == start else abs(sample - start))


def all_samples(policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission]) -> list[Sampled]:
    """Return the samples after each pass, from the last submission on."""
    samples_by_time: dict[float, dict[str, set[float]]] = {}

    def ask(planner: PlannerState, now: float) -> None:
        if now >= last:
            samples_by_time[now] = starts_by_key(planner, now)

    last = max(one.workload.created_at for one in submissions)
    submissions = [one._replace(run=one.workload.walltime) for one in submissions]
    played = Story(new_state(Snapshot(specs), policy), watch=ask).play(submissions)
    samples: list[Sampled] = []
    for at, each in samples_by_time.items():
        for key, (sample,) in each.items():
            starts = (now for now, step in played.plans if now > at and key in {new.key for new in step.admitted})
            samples.append(Sampled.of(at, sample, next(starts, inf)))
    return samples


@pytest.mark.parametrize("policy", EXACT_POLICIES, ids=str)
@given(queue_lists(preemption=True), submission_lists(most=9))
def test_in_queues_that_share_nothing_samples_are_exact(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission]
) -> None:
    alone = [spec._replace(cohort_name="") for spec in specs]
    assert not any(sampled.error for sampled in all_samples(policy, alone, submissions))


@pytest.mark.parametrize("policy", [POLICIES[0], POLICIES[3], BackfillPolicy(reserve_after=inf)], ids=str)
def test_in_a_cohort_samples_are_nearly_exact(policy: BackfillPolicy) -> None:
    """A sample path ignores what a head holds for its cycle; in random histories, four of five samples are exact."""
    random = Random(7)
    samples: list[Sampled] = []
    for _ in range(12):
        reclaims = random.choices(("Never", "LowerPriority", "Any"), k=3)
        specs = [
            queue(
                name, random.randint(2, 6), cohort="team", preemption=ClusterQueuePreemption("LowerPriority", reclaim)
            )
            for name, reclaim in zip("abc", reclaims, strict=True)
        ]
        submissions = [
            submission(
                f"{i:02}",
                random.randint(1, 8),
                random.randint(1, 12),
                at=i // 3,
                queue=random.choice("abc"),
                priority=random.choice((0, 0, 1)),
            )
            for i in range(12)
        ]
        samples += all_samples(policy, specs, submissions)
    known = [sampled for sampled in samples if sampled.wait < inf]
    assert len(known) > 300
    assert sum(sampled.error == 0 for sampled in samples) >= 0.8 * len(samples)
    assert sum(sampled.error for sampled in known) <= 0.08 * sum(sampled.wait for sampled in known)


@pytest.mark.parametrize("policy", ["greedy", "easy", DEFAULT_POLICY])
def test_a_slice_starts_once_there_is_quota_for_its_additional_pods(policy: str) -> None:
    """The slice that it replaces runs until then. The job ends when it would have ended without growing."""
    planner = state_after(submission("old", 3, 500), submission("other", 4, 50), policy=policy)
    new = replace(submission("new", 7, 500, at=1).workload, replaces="/old")
    events.submit(planner, new, "q")
    events.submit(planner, submission("last", 2, 10, at=2).workload, "q")
    schedule(planner, 2)
    assert starts_by_key(planner, 2) == {"/new": {50}, "/last": {500}}


def test_a_slice_does_not_start_if_its_job_ends_before() -> None:
    planner = state_after(submission("old", 3, 50), submission("other", 4, 500))
    events.submit(planner, replace(submission("new", 7, 50, at=1).workload, replaces="/old"), "q")
    schedule(planner, 2)
    assert starts_by_key(planner, 2) == {"/new": {inf}}


def test_a_preempted_job_starts_anew_with_its_waiting_slice() -> None:
    """The slice that it replaces does not return to the queue."""
    planner = state_after(submission("old", 3, 500), submission("other", 4, 50))
    events.submit(planner, replace(submission("new", 7, 500, at=1).workload, replaces="/old"), "q")
    events.submit(planner, submission("last", 2, 10, at=2).workload, "q")
    schedule(planner, 2)
    planner.running_workloads.mark_stopping("/old", Eviction("Preempted", 2))
    assert starts_by_key(planner, 2) == {"/new": {50}, "/last": {2}}
