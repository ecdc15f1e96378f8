"""Gangs of simulated pods: no pod works before all pods of its gang run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_sandbox.podrunner.gangs import RunningGangs
from zonewise_sandbox.podrunner.types import GANG_PODS, JOB_LABEL, RunnerMetadata, RunnerPod, RunnerPodStatus

SIZE = 3


def pod(job: str, index: int, phase: str, size: int | None = SIZE) -> RunnerPod:
    annotations = {} if size is None else {GANG_PODS: str(size)}
    metadata = RunnerMetadata(f"{job}-{index}", f"uid-{job}-{index}", "ns", {JOB_LABEL: job}, annotations)
    return RunnerPod(metadata, {}, RunnerPodStatus(phase))


def test_the_last_pod_of_a_gang_begins_the_work_of_all() -> None:
    gangs = RunningGangs()
    assert gangs.observe(pod("j", 0, "Running"), 1.0) == []
    assert gangs.observe(pod("j", 1, "Running"), 2.0) == []
    assert gangs.waits(pod("j", 0, "Running"))
    assert sorted(gangs.observe(pod("j", 2, "Running"), 5.0)) == [("ns", f"j-{i}") for i in range(SIZE)]
    assert not gangs.waits(pod("j", 0, "Running"))
    assert gangs.begin(pod("j", 0, "Running"), 1.0) == 5.0


def test_pods_of_a_whole_gang_end_each_on_its_own() -> None:
    gangs = RunningGangs()
    for i in range(SIZE):
        gangs.observe(pod("j", i, "Running"), float(i))
    gangs.observe(pod("j", 0, "Succeeded"), 9.0)
    assert not gangs.waits(pod("j", 1, "Running"))


def test_a_pod_of_no_gang_waits_for_none() -> None:
    gangs = RunningGangs()
    single = pod("j", 0, "Running", size=None)
    assert gangs.observe(single, 1.0) == []
    assert not gangs.waits(single)
    assert gangs.begin(single, 1.0) == 1.0


def test_a_job_that_runs_again_waits_for_all_its_pods_again() -> None:
    gangs = RunningGangs()
    for i in range(SIZE):
        gangs.observe(pod("j", i, "Running"), 1.0)
    for i in range(SIZE):
        gangs.observe(pod("j", i, "Running"), 2.0, exists=False)
    gangs.observe(pod("j", 0, "Running"), 3.0)
    assert gangs.waits(pod("j", 0, "Running"))


CHANGES = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.integers(0, SIZE), st.sampled_from(("Pending", "Running", "Failed")), st.booleans()
    ),
    max_size=60,
)


@given(CHANGES)
def test_a_gang_works_once_all_its_pods_run_until_none_does(
    changes: list[tuple[str, int, str, bool]],
) -> None:
    gangs = RunningGangs()
    running: dict[str, set[int]] = {"a": set(), "b": set()}
    whole: set[str] = set()
    for time, (job, index, phase, exists) in enumerate(changes):
        gangs.observe(pod(job, index, phase), float(time), exists=exists)
        if exists and phase == "Running":
            running[job].add(index)
            whole |= {job} if len(running[job]) >= SIZE else set()
        else:
            running[job].discard(index)
            whole -= set() if running[job] else {job}
        assert {name for name in running if not gangs.waits(pod(name, 0, "Running"))} == whole
