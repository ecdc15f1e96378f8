"""Predictions of run times from similar jobs."""

from __future__ import annotations

from itertools import accumulate
from math import floor, inf, log2
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pool_jobs import job
from zonewise_scheduler.backfill.forecast import run_time_history
from zonewise_scheduler.backfill.forecast.run_time_history import (
    RECENCY,
    SAMPLES_PER_GROUP,
    RunTimeHistory,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

ANN, BEN = ("ann", "q", "solve"), ("ben", "q", "solve")


def learned(walltime: float = inf, **runs: Sequence[float]) -> RunTimeHistory:
    """Return a history of the run times of ann and ben, who declare this walltime."""
    times = RunTimeHistory()
    for user, lengths in runs.items():
        for run in lengths:
            times.observe(job(0, 1, walltime, history_keys=(user, "q", "solve")), run)
    return times


def short_and_likely(
    times: RunTimeHistory, walltime: float, keys: tuple[str, ...] = ANN, elapsed: float = 0.0
) -> tuple[float, float]:
    """Return the 10th percentile and the median of the predicted run times."""
    distribution = times.distribution(job(1, 1, walltime, history_keys=keys), elapsed)
    assert distribution is not None
    return distribution.quantile(0.1), distribution.quantile(0.5)


def test_the_narrowest_group_with_enough_samples_predicts() -> None:
    times = learned(ann=[10, 20, 30])
    times.observe(job(0, 1, history_keys=("ann", "q", "other")), 500)
    times.observe(job(0, 1, history_keys=("ann", "q", "other")), 600)
    assert short_and_likely(times, 100) == (10, 20)
    assert short_and_likely(times, 1000, ("ann", "q", "other")) == (10, 30)


def test_without_samples_nothing_is_predicted() -> None:
    assert learned(ann=[10, 20, 30]).distribution(job(1, 1, 100, history_keys=BEN)) is None
    assert RunTimeHistory().distribution(job(1, 1, 100, history_keys=ANN)) is None


def test_jobs_without_a_walltime_are_predicted_from_all_such_jobs() -> None:
    """Predictions use all such jobs if the user has run none; runs with a declared walltime do not count."""
    times = learned(ann=[10, 20, 30])
    times.observe(job(0, 1, 100, history_keys=ANN), 99)
    assert short_and_likely(times, inf, BEN) == (10, 20)


def test_no_prediction_exceeds_the_walltime() -> None:
    assert short_and_likely(learned(ann=[10, 20, 30]), 15) == (10, 15)


def test_a_user_whose_jobs_outlive_walltimes_is_predicted_to_do_so_again() -> None:
    """Ann's jobs run three times as long as declared. Nothing suggests that she would outlive a longer walltime."""
    times = learned(100, ann=[300, 300, 300])
    assert short_and_likely(times, 100)[1] == 300
    assert short_and_likely(times, 200)[1] == 300
    assert short_and_likely(times, 1000)[1] == 1000


@pytest.mark.parametrize(
    ("walltime", "elapsed", "likely"),
    [(100, 90, None), (100, 159, None), (100, 160, 320), (inf, 90, 180), (inf, 29, 30)],
)
def test_a_run_longer_than_all_others_is_predicted_to_run_for_as_long_again(
    walltime: float, elapsed: float, likely: float | None
) -> None:
    """No enforced walltime may bound the job, as it would end the job after a minute. Half of such jobs run longer."""
    distribution = learned(walltime, ann=[10, 20, 30]).distribution(job(1, 1, walltime, history_keys=ANN), elapsed)
    assert (None if distribution is None else distribution.quantile(0.5)) == likely
    if likely == 2 * elapsed:
        assert distribution is not None
        assert distribution.run_times == pytest.approx([elapsed / (1 - level) for level in (0.1, 0.3, 0.5, 0.7, 0.9)])


def test_without_runs_of_its_kind_a_job_has_no_prediction_at_any_age() -> None:
    times = learned(100, ann=[10, 20, 30])
    assert times.distribution(job(1, 1, history_keys=BEN), 3600) is None
    assert times.distribution(job(1, 1, 1000, history_keys=BEN), 3600) is None


def test_shorter_samples_do_not_count_for_a_running_job() -> None:
    times = learned(ann=[10, 20, 30, 40])
    assert short_and_likely(times, 100, elapsed=15) == (20, 30)
    assert short_and_likely(times, 100, elapsed=40) == (40, 40)
    assert times.distribution(job(1, 1, 100, history_keys=ANN), elapsed=50) is None


def test_only_the_last_run_times_count() -> None:
    assert short_and_likely(learned(ann=[1] * 50 + [9] * SAMPLES_PER_GROUP), 100) == (9, 9)


def test_replayed_observations_give_the_same_history() -> None:
    times, again = learned(100, ann=[25, 35, 45], ben=[90] * 50), RunTimeHistory()
    times.observe(job(0, 1, 400, history_keys=ANN), 300)
    for run in times.observed:
        again.observe(run, run.run_time)
    for walltime in (100, 400, 1000):
        for keys in (ANN, BEN):
            subject = job(1, 1, walltime, history_keys=keys)
            assert again.distribution(subject) == times.distribution(subject)


def test_a_copy_is_independent() -> None:
    times = learned(ann=[10, 20, 30])
    copied = times.copy()
    times.observe(job(0, 1, history_keys=ANN), 5)
    assert short_and_likely(copied, 100) == (10, 20)
    assert len(copied.observed) == 3


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from([50.0, 60.0, 900.0, inf]), st.integers(1, 100)), max_size=12
    )
)
def test_a_prediction_is_that_of_a_history_without_earlier_predictions(runs: list[tuple[str, float, int]]) -> None:
    """Copies share predictions. A run that only the copy observes changes those of the copy alone."""
    asked, copied = RunTimeHistory(), RunTimeHistory()
    subjects = [job(0, 1, walltime, history_keys=(user, "q")) for user in "ab" for walltime in (50.0, 900.0, inf)]
    for index, (user, walltime, run_time) in enumerate(runs):
        run = job(0, 1, walltime, history_keys=(user, "q"))
        copied = asked.copy()
        copied.observe(run, run_time + 1.0)
        asked.observe(run, run_time)
        for times, last in ((asked, 0.0), (copied, 1.0)):
            fresh = RunTimeHistory()
            for number, (earlier_user, earlier_walltime, earlier) in enumerate(runs[: index + 1]):
                more = last if number == index else 0.0
                fresh.observe(job(0, 1, earlier_walltime, history_keys=(earlier_user, "q")), earlier + more)
            assert [times.distribution(each) for each in subjects] == [fresh.distribution(each) for each in subjects]


def test_predictions_are_computed_once_until_their_runs_change() -> None:
    times = learned(ann=[10, 20, 30])
    of_ann, of_ben = (job(0, 1, history_keys=keys) for keys in (ANN, BEN))
    known = times.distribution(of_ann)
    assert times.copy().distribution(of_ann) is known
    times.observe(job(0, 1, 100, history_keys=BEN), 5)
    assert times.distribution(of_ann) is known, "runs of others with another walltime do not count"
    before = times.distribution(of_ben)
    times.observe(of_ben, 5)
    assert times.distribution(of_ben) is not before
    assert times.distribution(of_ann) is not known


def test_at_most_as_many_predictions_are_kept_as_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_time_history, "MAX_GROUPS", 4)
    times = learned(ann=[10])
    subjects = [job(0, 1, 100.0 + i, history_keys=ANN) for i in range(5)]
    first, *others = [times.distribution(subject) for subject in subjects]
    assert times.distribution(subjects[-1]) is others[-1]
    assert times.distribution(subjects[0]) is not first


def test_a_run_is_scaled_by_the_walltime() -> None:
    """Ann's jobs take a quarter of the declared walltime; Ben's job with about the same walltime is predicted alike."""
    times = learned(100, ann=[25, 25, 25])
    assert short_and_likely(times, 400)[1] == 100
    assert short_and_likely(times, 101, BEN)[1] == pytest.approx(25.25)
    assert times.distribution(job(1, 1, 400, history_keys=BEN)) is None


def test_runs_with_the_same_walltime_weigh_more() -> None:
    times = learned(100, ann=[10] * 5)
    times.observe(job(0, 1, 1000, history_keys=ANN), 900)
    assert short_and_likely(times, 1000)[1] == 900
    assert short_and_likely(times, 100)[1] == 10


def test_the_runs_of_all_users_together_weigh_as_much_as_ten_other_runs() -> None:
    """One run of ann has another walltime; the three runs of ben have ten elevenths of the weight."""
    times = learned(100, ben=[50, 60, 70])
    times.observe(job(0, 1, 1000, history_keys=ANN), 10)
    distribution = times.distribution(job(1, 1, 100, history_keys=ANN))
    assert distribution is not None
    assert [distribution.quantile(level) for level in (0.09, 0.1, 0.39, 0.4, 0.99)] == [1, 50, 50, 60, 70]


def test_later_runs_weigh_more() -> None:
    """With as many long runs as short ones, the later half has more than half of the weight; a new run changes that."""
    times = learned(ann=[10] * 20 + [90] * 20)
    distribution = times.distribution(job(1, 1, 100, history_keys=ANN))
    assert distribution is not None
    early = RECENCY**20 / (1 + RECENCY**20)
    assert [distribution.quantile(level) for level in (early - 0.01, early + 0.01)] == [10, 90]


def test_a_run_that_does_not_count_still_ages_the_others() -> None:
    """The age of a run is the number of later runs of its group, including those shorter than the elapsed time."""
    times = learned(ann=[90, *[10] * 20, 80])
    distribution = times.distribution(job(1, 1, 100, history_keys=ANN), elapsed=50)
    assert distribution is not None
    assert list(distribution.weights) == pytest.approx([1, 1 + RECENCY**21])


@pytest.mark.parametrize("seed", range(20))
def test_a_prediction_equals_its_definition(seed: int) -> None:
    """The last 64 runs of the narrowest group with three usable runs count, as do those of a similar walltime."""
    random = Random(seed)
    walltimes = [20.0, 100.0, 120.0, 145.0, 400.0, float("inf")]
    runs: list[tuple[float, float, tuple[str, ...]]] = []
    times = RunTimeHistory()
    for _ in range(random.choice([3, 10, 400])):
        keys = (random.choice("ab"), random.choice("qp"), random.choice("stu"))
        runs.append((random.uniform(1, 150), random.choice(walltimes), keys))
        times.observe(job(0, 1, runs[-1][1], history_keys=keys), runs[-1][0])
    for walltime in [walltime * 1.0 for walltime in walltimes]:  # walltimes are distinct objects, as in documents
        elapsed, keys = random.choice([0.0, 40.0, 110.0]), ("a", "q", "s")
        expected: list[tuple[float, float]] = []
        for size in (3, 2, 1):
            group = [run for run in runs if run[2][:size] == keys[:size]]
            expected = weighted(group, walltime, elapsed)
            if len(expected) >= 3:
                break
        like = [run for run in runs if scale(run[1]) == scale(walltime)]
        pooled = weighted(like, walltime, elapsed)
        expected += [(run_time, 10 / len(pooled)) for run_time, _ in pooled]
        distribution = times.distribution(job(1, 1, walltime, history_keys=keys), elapsed)
        if not expected:
            outlives = walltime == inf or elapsed >= walltime + 60
            assert (distribution is not None) == (bool(like) and outlives)
            continue
        assert distribution is not None
        expected.sort()
        assert distribution.run_times == pytest.approx([run_time for run_time, _ in expected])
        assert distribution.weights == pytest.approx(list(accumulate(weight for _, weight in expected)))


def weighted(
    runs: Sequence[tuple[float, float, tuple[str, ...]]], walltime: float, elapsed: float
) -> list[tuple[float, float]]:
    """Return run times scaled by the walltime; each weighs 95 % of the next, and ten times as much under the same
    walltime.

    None exceeds the walltime, unless it did so before scaling.
    """
    ignored = elapsed >= walltime + 60
    samples: list[tuple[float, float]] = []
    for age, (run_time, declared, _) in enumerate(runs[-64:][::-1]):
        scaled = run_time if inf in (declared, walltime) else run_time / declared * walltime
        if declared == inf:
            scaled = scaled if ignored else min(scaled, walltime)
        else:
            scaled = min(scaled, max(walltime, run_time))
        if scaled >= elapsed:
            samples.append((scaled, 0.95**age * (10 if declared == walltime else 1)))
    return samples


def scale(walltime: float) -> float:
    return floor(2 * log2(walltime)) if walltime < inf else inf


def test_old_groups_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_time_history, "MAX_GROUPS", 6)
    times = learned(ann=[10, 20, 30], ben=[40, 50, 60])
    assert times.distribution(job(1, 1, 100, history_keys=ANN)) is not None
    times = learned(ann=[10, 20, 30], ben=[40, 50, 60], cid=[70, 80, 90])
    assert times.distribution(job(1, 1, 100, history_keys=ANN)) is None
    assert times.distribution(job(1, 1, 100, history_keys=BEN)) is not None


def test_at_most_twenty_thousand_groups_and_runs_are_kept() -> None:
    times = RunTimeHistory()
    for user in range(20_001):
        times.observe(job(0, 1, history_keys=(user,)), user)
    predicted = [user for user in range(20_001) if times.distribution(job(1, 1, history_keys=(user,))) is not None]
    assert predicted == [run.run_time for run in times.observed] == list(range(1, 20_001))


def test_walltimes_below_a_second_are_alike() -> None:
    """Other walltimes are alike if they lie between the same two powers of the square root of 2."""
    times = RunTimeHistory()
    for walltime, run in ((0.3, 0.2), (0.9, 0.6), (1.3, 0.5), (1.5, 0.4)):
        times.observe(job(0, 1, walltime, history_keys=ANN), run)
    for walltime, runs in ((0.1, 3), (1.0, 3), (1.4, 3), (1.45, 1), (2.0, None)):
        distribution = times.distribution(job(1, 1, walltime, history_keys=BEN))
        assert (None if distribution is None else len(distribution.run_times)) == runs


@given(
    st.lists(st.tuples(st.floats(1, 1e6), st.floats(0, 1.5)), max_size=60), st.floats(1, 1e6), st.floats(0, 2e6),
    st.floats(0, 0.999),
)  # fmt: skip
def test_a_prediction_is_between_the_time_elapsed_and_the_walltime_unless_that_is_not_enforced(
    runs: list[tuple[float, float]], walltime: float, elapsed: float, level: float
) -> None:
    times = RunTimeHistory()
    for declared, share in runs:
        times.observe(job(0, 1, declared, history_keys=ANN), declared * share)
    subject = job(1, 1, walltime, history_keys=ANN)
    distribution = times.distribution(subject, elapsed)
    if distribution is not None:
        assert elapsed <= distribution.quantile(level)
        if elapsed < walltime and all(share <= 1 for _, share in runs):
            assert distribution.quantile(level) <= walltime * (1 + 1e-9)
        assert len(distribution.run_times) <= 2 * SAMPLES_PER_GROUP
        assert list(distribution.run_times) == sorted(distribution.run_times)


def test_runs_of_unknown_users_predict_those_of_a_new_user() -> None:
    """Such runs are from before an upgrade. Once the user has enough runs, only these count."""
    times, keys = RunTimeHistory(), ("ns", "user ann", "q", "solve")

    def observe(keys: tuple[str, ...], *run_times: float) -> None:
        for run_time in run_times:
            times.observe(job(0, 1, 1000, history_keys=keys), run_time)

    def predicted() -> list[float]:
        """Return the run times of a job that declares so much that the runs of all users have another walltime."""
        distribution = times.distribution(job(1, 1, 1_000_000, history_keys=keys))
        return [] if distribution is None else [run_time / 1000 for run_time in distribution.run_times]

    observe(("ns", "q", "solve"), 500, 510, 520)
    observe(("elsewhere", "q", "solve"), 9)
    assert predicted() == [500, 510, 520]
    observe(keys, 10, 20)
    assert predicted() == [10, 20, 500, 510, 520]
    observe(keys, 30)
    assert predicted() == [10, 20, 30]
