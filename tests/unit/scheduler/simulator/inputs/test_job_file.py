"""Job files."""

from __future__ import annotations

import json
from collections import Counter
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.taints import Toleration
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest
from zonewise_scheduler.simulator.inputs.fleet_file import parse_short_fleet
from zonewise_scheduler.simulator.inputs.job_file import read_job_file
from zonewise_scheduler.simulator.inputs.loader import load_scenario
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Scenario

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet

SCENARIOS = Path(__file__).parents[5] / "demo/scenarios"

JOB = {"name": "j", "requests": {"cpu": 2}, "run": 60}


def nodes(text: str = "10x8") -> Fleet:
    result = parse_short_fleet(text)
    assert result is not None
    return result


def read(*jobs: object, **fields: object) -> Scenario:
    return read_job_file({"jobs": list(jobs), **fields}, "f.json", nodes())


def of_file(name: str, **options: Any) -> Scenario:
    result = load_scenario(str(SCENARIOS / name), **options)
    assert isinstance(result, Scenario)
    assert result.problems == ()
    return result


def test_a_group_begins_at_a_time_and_its_queue_reserves_it() -> None:
    """Jobs that are submitted later than that have no begin time."""
    queues = [{"name": "a", "advanceReservations": True, "share": 1}, {"name": "b", "share": 0}]
    result = read({**JOB, "count": 3, "every": 10, "begin": 15, "queue": "a"}, queues=queues)
    assert [entry.workload.begin_at for entry in result.arrivals] == [15, 15, 0]
    assert {queue.name: queue.advance_reservations for queue in result.queues} == {"a": True, "b": False}
    assert [entry.workload.begin_at for entry in read(JOB).arrivals] == [0]


@pytest.mark.parametrize("begin", [-1, "08:00", True])
def test_an_invalid_begin_time_is_a_problem(begin: object) -> None:
    problems = read(JOB, {**JOB, "name": "k", "begin": begin}).problems
    assert [problem for problem in problems if problem.startswith("f.json: jobs[1].begin: ")] == list(problems)
    assert problems


def test_the_thousand_jobs() -> None:
    """Half of them run at once; their work takes at least 450 s."""
    result = of_file("thousand-jobs.json")
    jobs = [entry for entry in result.arrivals if entry.kind == "job"]
    assert Counter(entry.kind for entry in result.arrivals) == {"job": 1000, "sample": 100}
    assert {entry.workload.walltime for entry in result.arrivals} == {900}
    assert {tuple(entry.workload.total_requests[0].requests.items()) for entry in jobs} == {
        (("cpu", 20_000), ("memory", 20 << 30))
    }
    assert result.nodes is not None
    assert result.nodes.available("cpu").tolist() == [100_000] * 100
    assert all(180 <= entry.run_time < 270 for entry in jobs)
    assert sum(20 * entry.run_time for entry in jobs) / 10_000 == pytest.approx(450, rel=0.01)
    assert {entry.workload.created_at for entry in result.arrivals} == {0}


def test_the_thousand_jobs_submitted_at_a_fixed_rate() -> None:
    result = of_file("thousand-jobs-paced.json")
    jobs = [entry for entry in result.arrivals if entry.kind == "job"]
    assert 999 / jobs[-1].workload.created_at == pytest.approx(2.67, abs=0.01)
    times = [entry.workload.created_at for entry in result.arrivals]
    assert times == sorted(times)
    assert [entry.run_time for entry in jobs] == [
        entry.run_time for entry in of_file("thousand-jobs.json").arrivals if entry.kind == "job"
    ]


def test_a_seed_makes_other_jobs() -> None:
    runs = [entry.run_time for entry in of_file("thousand-jobs.json").arrivals]
    assert [entry.run_time for entry in of_file("thousand-jobs.json", seed=0).arrivals] == runs
    assert [entry.run_time for entry in of_file("thousand-jobs.json", seed=1).arrivals] != runs


def test_a_group_draws_numbers_independently() -> None:
    """The preceding groups do not change its numbers, but its position does."""
    random = {"name": "r", "count": 5, "run": {"exponential": 60}}
    single = read({"name": "x", "run": 1}, random, seed=3)
    beside = read({"name": "x", "run": {"uniform": [1, 2]}, "count": 50}, random, seed=3)
    assert [entry.run_time for entry in single.arrivals if entry.kind == "r"] == [
        entry.run_time for entry in beside.arrivals if entry.kind == "r"
    ]


def test_every_field_of_a_job() -> None:
    result = read(
        {
            "name": "j", "count": 2, "queue": "b", "user": "u", "priority": -5,
            "pods": 3, "requests": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 1},
            "at": 10, "every": 5, "run": 60, "limit": 120,
            "nodeSelector": {"kind": "gpu"}, "tolerations": [{"key": "a", "operator": "Exists"}],
            "topologyRequest": {"preferred": "rack"},
        },
        {"name": "x", "queue": "a", "run": 1},
    )  # fmt: skip
    assert result.problems == ()
    first, second = (entry for entry in result.arrivals if entry.kind == "j")
    workload = first.workload
    assert (first.queue, first.run_time, first.kind) == ("b", 60, "j")
    assert (workload.name, workload.priority, workload.created_at, workload.walltime) == ("j-0", -5, 10, 120)
    assert (second.workload.name, second.workload.created_at) == ("j-1", 15)
    assert workload.history_keys == ("u", "b", "j")
    [pods] = workload.pod_sets
    assert (pods.pods, pods.requests) == (3, {"cpu": 1500, "memory": 1 << 30, "nvidia.com/gpu": 1})
    assert [entry.key for entry in pods.node_selector] == ["kind"]
    assert pods.tolerations == (Toleration("a", "Exists"),)
    assert pods.topology is not None
    assert pods.topology.request == PodSetTopologyRequest(preferred="rack")
    assert [entry.name for entry in result.queues] == ["b", "a"]


def test_a_group_without_a_count_is_one_job_of_its_name() -> None:
    result = read({"name": "A", "run": 1}, {"name": "B", "count": 1, "run": 1})
    assert [entry.workload.name for entry in result.arrivals] == ["A", "B-0"]


def test_a_job_may_declare_nothing_or_too_much() -> None:
    result = read(
        {"name": "n", "run": 100}, {"name": "o", "run": 100, "overestimate": {"uniform": [2, 5]}},
        {"name": "z", "run": 0, "overestimate": 3},
    )  # fmt: skip
    limits = [entry.workload.walltime for entry in result.arrivals]
    assert limits[0] == inf
    assert 200 <= limits[1] < 500
    assert limits[2] == 1


def test_queues_have_shares_of_the_nodes() -> None:
    result = read(
        JOB | {"queue": "a"},
        queues=[
            {"name": "a", "share": 0.7, "cohort": "c", "strategy": "StrictFIFO",
             "preemption": {"withinClusterQueue": "LowerPriority"}},
            {"name": "b", "share": 0.3, "cohort": "c"},
        ],
    )  # fmt: skip
    a, b = result.queues
    assert [dict(entry.resource_groups[0].flavors[0].quotas)["cpu"].nominal for entry in (a, b)] == [56_000, 24_000]
    assert (a.cohort_name, a.queueing_strategy, a.preemption) == (
        "c",
        "StrictFIFO",
        ClusterQueuePreemption("LowerPriority"),
    )
    assert result.problems == ()


def test_fair_sharing_is_a_setting() -> None:
    assert read(JOB, fairSharing=True).settings.fair_sharing
    assert not read(JOB).settings.fair_sharing


DAMAGED: list[tuple[Any, str]] = [
    ({"name": "b"}, "jobs[1].run: is missing"),
    (JOB | {"run": "long"}, "jobs[1].run: neither a non-negative number nor one of {uniform: [a, b]}"),
    (JOB | {"run": -1}, "jobs[1].run: neither a non-negative number"),
    (JOB | {"run": True}, "jobs[1].run: neither a non-negative number"),
    (JOB | {"run": float("nan")}, "jobs[1].run: neither a non-negative number"),
    (JOB | {"run": {"uniform": [5, 1]}}, "jobs[1].run: neither a non-negative number"),
    (JOB | {"run": {"normal": [5, 1]}}, "jobs[1].run: neither a non-negative number"),
    (JOB | {"run": {"loguniform": [0, 1]}}, "jobs[1].run: neither a non-negative number"),
    (JOB | {"run": {"choice": []}}, "jobs[1].run: neither a non-negative number"),
    (JOB | {"count": 0}, "jobs[1].count: not between 1 and 3000000: 0"),
    (JOB | {"pods": 0}, "jobs[1].pods: not between 1 and"),
    (JOB | {"pods": {"exponential": 3}}, "jobs[1].pods: not between 1 and"),
    (JOB | {"limit": 0}, "jobs[1].limit: not above 0: 0"),
    (JOB | {"limit": 5, "overestimate": 2}, "jobs[1].overestimate: there is a limit too: 2"),
    (JOB | {"requests": {"cpu": "many"}}, "jobs[1].requests.cpu: not a quantity: 'many'"),
    (JOB | {"priority": 1 << 31}, "jobs[1].priority: not between"),
    (JOB | {"name": 7}, "jobs[1].name: not a string: 7"),
    (JOB | {"nodeSelector": "a"}, "jobs[1].nodeSelector: not an object: 'a'"),
    (JOB | {"topologyRequest": {"required": 1}}, "jobs[1].topologyRequest.required: not a string: 1"),
    (JOB | {"topologyRequest": "rack"}, "jobs[1].topologyRequest: not an object: 'rack'"),
    (JOB | {"name": "good-0"}, "jobs[1].name: jobs with this name exist already: 'good-0'"),
    (7, "jobs[1]: not an object: 7"),
]


@pytest.mark.parametrize(("job", "reported"), DAMAGED)
def test_a_damaged_group_is_reported_and_no_other_is_lost(job: object, reported: str) -> None:
    result = read(JOB | {"name": "good", "count": 2}, job, JOB | {"name": "last"})
    assert [entry.workload.name for entry in result.arrivals] == ["good-0", "good-1", "last"]
    [problem] = result.problems
    assert problem.startswith(f"f.json: {reported}")


def test_a_queue_that_does_not_exist_is_reported() -> None:
    result = read(
        JOB | {"queue": "a"},
        JOB | {"name": "x", "queue": "z"},
        JOB | {"name": "y"},
        queues=[{"name": "a"}, {"name": "b"}],
    )
    assert result.problems == (
        "f.json: jobs[1].queue: not one of a, b: 'z'",
        "f.json: jobs[2].queue: not one of a, b: ''",
    )
    assert len(result.arrivals) == 1


def test_unknown_fields_are_reported_and_the_job_is_read() -> None:
    result = read(JOB | {"color": "red"}, jobz=3)
    assert result.problems == ("f.json: jobs[0].color: unknown field", "f.json: jobz: unknown field")
    assert len(result.arrivals) == 1


NOTHING_LEFT: list[tuple[Any, str]] = [
    ({"jobs": []}, "jobs: no job can be used"),
    ({"jobs": [{}]}, r"jobs: no job can be used; jobs\[0\].run: is missing"),
    ({"jobs": [{"run": 1, "count": 3_000_000}, {"run": 1, "name": "b"}]}, "jobs: more than 3000000: 3000001"),
]


@pytest.mark.parametrize(("given", "reported"), NOTHING_LEFT)
def test_a_file_without_valid_jobs_is_an_error(given: Any, reported: str) -> None:
    with pytest.raises(InputError, match=rf"^f\.json: {reported}"):
        read_job_file(given, "f.json", nodes())


_SECONDS = st.integers(0, 10**6) | st.floats(0, 10**6)
_ANY_JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "at": _SECONDS,
            "run": _SECONDS,
            "limit": st.integers(1, 10**6),
            "pods": st.integers(1, 1000),
            "cpu": st.integers(0, 10**6),
            "priority": st.integers(-(2**31) + 1, 2**31 - 1),
            "queue": st.sampled_from(["a", "b"]),
        }
    ),
    min_size=1,
    max_size=8,
)


@given(_ANY_JOBS)
def test_written_jobs_are_read_back(jobs: list[dict[str, Any]]) -> None:
    """JSON and YAML give the same jobs."""
    written = [
        {"name": f"j{index}", "requests": {"cpu": f"{entry['cpu']}m"}}
        | {key: entry[key] for key in entry if key != "cpu"}
        for index, entry in enumerate(jobs)
    ]
    file = {"jobs": written, "queues": [{"name": "a"}, {"name": "b"}]}
    texts = json.loads(json.dumps(file)), yaml.safe_load(yaml.safe_dump(file))
    for given_file in texts:
        result = read_job_file(given_file, "f", nodes())
        assert result.problems == ()
        by_name = {entry.workload.name: entry for entry in result.arrivals}
        assert len(by_name) == len(jobs)
        for index, entry in enumerate(jobs):
            read_back = by_name[f"j{index}"]
            workload = read_back.workload
            assert (workload.created_at, read_back.run_time, workload.walltime) == (
                entry["at"],
                entry["run"],
                entry["limit"],
            )
            assert (workload.priority, read_back.queue, workload.total_requests[0].pods) == (
                entry["priority"], entry["queue"], entry["pods"]
            )  # fmt: skip
            assert workload.total_requests[0].requests.get("cpu", 0) == entry["cpu"] * entry["pods"]
