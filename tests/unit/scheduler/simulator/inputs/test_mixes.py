"""Named mixes of jobs."""

from __future__ import annotations

from collections import defaultdict

import pytest

from zonewise_scheduler.simulator.inputs.fleet_file import parse_short_fleet, read_fleet
from zonewise_scheduler.simulator.inputs.mixes import GPU, MIXES, build_mix
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Scenario  # noqa: TC001 -- read by people

MANY = 4000


def work_by_kind(result: Scenario, resource: str) -> dict[str, float]:
    work: dict[str, float] = defaultdict(float)
    for entry in result.arrivals:
        work[entry.kind] += entry.workload.total_requests[0].requests.get(resource, 0) * entry.run_time
    return work


@pytest.mark.parametrize("name", sorted(MIXES))
def test_a_mix_has_the_load_that_is_requested(name: str) -> None:
    """The load is the work divided by capacity and time span of submissions."""
    result = build_mix(name, jobs=MANY, load=0.7, seed=1)
    resource = MIXES[name].resource
    flavor = dict(result.queues[0].resource_groups[0].flavors[0].quotas)
    span = result.arrivals[-1].workload.created_at
    load = sum(work_by_kind(result, resource).values()) / flavor[resource].nominal / span
    assert load == pytest.approx(0.7, rel=0.1)
    assert len(result.arrivals) == MANY


@pytest.mark.parametrize("name", sorted(MIXES))
@pytest.mark.parametrize("jobs", [1, 2, 300])
def test_a_seed_gives_the_same_jobs(name: str, jobs: int) -> None:
    first, again, other = (build_mix(name, jobs=jobs, seed=seed) for seed in (1, 1, 2))
    assert [(entry.run_time, entry.workload.created_at, entry.workload.walltime) for entry in first.arrivals] == [
        (entry.run_time, entry.workload.created_at, entry.workload.walltime) for entry in again.arrivals
    ]
    assert [entry.run_time for entry in first.arrivals] != [entry.run_time for entry in other.arrivals]
    assert len({entry.workload.key for entry in first.arrivals}) == jobs


@pytest.mark.parametrize("name", sorted(MIXES))
def test_jobs_are_in_order_of_time_fit_the_nodes_and_declare_more_than_they_run(name: str) -> None:
    result = build_mix(name, jobs=MANY)
    times = [entry.workload.created_at for entry in result.arrivals]
    assert times == sorted(times)
    assert all(entry.workload.walltime > entry.run_time for entry in result.arrivals)
    quotas = dict(result.queues[0].resource_groups[0].flavors[0].quotas)
    for entry in result.arrivals:
        for resource, amount in entry.workload.total_requests[0].requests.items():
            assert 0 < amount <= quotas[resource].nominal


def test_widths_are_limited_to_the_fleet() -> None:
    for name, nodes in (("hpc", "3x4"), ("hpc", "1"), ("batch", "1x1")):
        fleet = parse_short_fleet(nodes)
        assert fleet is not None
        result = build_mix(name, fleet, jobs=500)
        assert all(
            entry.workload.total_requests[0].requests["cpu"] <= fleet.total_capacity["cpu"] for entry in result.arrivals
        )


def test_training_jobs_use_whole_nodes_and_most_of_the_time() -> None:
    result = build_mix("ai", jobs=MANY)
    trainings = [entry for entry in result.arrivals if entry.kind == "training"]
    assert {entry.workload.pod_sets[0].requests[GPU] for entry in trainings} == {8}
    assert {entry.workload.pod_sets[0].pods for entry in trainings} >= {1, 64, 1024}
    assert len(trainings) < MANY / 10
    work = work_by_kind(result, GPU)
    assert work["training"] > 0.9 * sum(work.values())


def test_the_hpc_mix_has_wide_and_narrow_long_and_short_jobs() -> None:
    result = build_mix("hpc", jobs=MANY)
    widths = sorted(entry.workload.total_requests[0].requests["cpu"] // 1000 for entry in result.arrivals)
    assert (widths[0], widths[-1] > 1024 * 64 / 2) == (1, True)
    assert 0.2 < sum(width == 1 for width in widths) / MANY < 0.35
    assert sum(width.bit_count() == 1 for width in widths) / MANY > 0.6
    assert min(entry.run_time for entry in result.arrivals) < 120
    assert max(entry.run_time for entry in result.arrivals) > 0.8 * 86400
    ratios = [entry.workload.walltime / entry.run_time for entry in result.arrivals]
    assert 2 <= min(ratios) < max(ratios) < 5.0001


def test_a_mix_adapts_to_the_resources_of_other_nodes() -> None:
    kinds = [{"name": "g", "share": 0.5, "cpu": 32, "resources": {GPU: 4}}, {"name": "c", "cpu": 64}]
    fleet = read_fleet({"levels": [{"name": "n", "count": 8}], "kinds": kinds}, "f")
    result = build_mix("ai", fleet, jobs=500)
    assert {entry.workload.pod_sets[0].requests[GPU] for entry in result.arrivals if entry.kind == "training"} == {4}
    assert max(entry.workload.pod_sets[0].pods for entry in result.arrivals) == 4


@pytest.mark.parametrize(
    ("name", "options", "reported"),
    [
        ("web", {}, "web: unknown mix; the mixes are hpc, ai, batch"),
        ("hpc", {"jobs": 0}, "hpc: jobs: 0 is not between 1 and 3000000"),
        ("hpc", {"load": 0.0}, "hpc: load: 0.0 is not above 0"),
        ("hpc", {"load": float("nan")}, "hpc: load: nan is not above 0"),
        ("ai", {"fleet": parse_short_fleet("5x8")}, "ai: nodes: no node has nvidia.com/gpu"),
    ],
)
def test_errors(name: str, options: dict[str, float], reported: str) -> None:
    with pytest.raises(InputError, match=reported):
        build_mix(name, **options)  # pyright: ignore[reportArgumentType]
