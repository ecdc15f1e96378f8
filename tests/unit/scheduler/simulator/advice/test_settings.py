"""Settings with their ladders, and traces with other values of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, policy_named
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.queue_types import ClusterQueue
from zonewise_scheduler.quota.api.resource_quota import (
    FlavorQuotas,
    FlavorResource,
    ResourceQuota,
    resource_group,
    resource_quotas,
)
from zonewise_scheduler.simulator.advice.settings import (
    NodeCount,
    NominalQuota,
    QuotaTarget,
    ReserveAfter,
    find_quota,
    parse_node_count,
)
from zonewise_scheduler.simulator.inputs.loader import load_scenario
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Scenario
from zonewise_scheduler.simulator.swf import LoggedJobs, SwfLog

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.advice.settings import AdvisedSetting

POLICY = policy_named(DEFAULT_POLICY)
GIB = 1 << 30


def queue(name: str, cpus: int = 8, **resources: int) -> ClusterQueue:
    quotas = {"cpu": cpus * 1000, **resources}
    flavors = [
        FlavorQuotas(flavor, tuple((resource, ResourceQuota(size, 5, 7)) for resource, size in quotas.items()))
        for flavor in ("spot", "fast")
    ]
    return ClusterQueue(name, (resource_group(*flavors),))


SCENARIO = Scenario("s", [], (queue("a"), queue("b", memory=3 * GIB), queue("c", gpu=UNLIMITED)))


def mix(nodes: int) -> Scenario:
    source = load_scenario("hpc", f"{nodes}x8", jobs=20)
    assert isinstance(source, Scenario)
    return source


def submissions(scenario: Scenario) -> list[tuple[str, float, int]]:
    """Return name, time and pods of each job."""
    workloads = [arrival.workload for arrival in scenario.arrivals]
    return [(workload.name, workload.created_at, workload.pod_sets[0].pods) for workload in workloads]


def check_ladder(setting: AdvisedSetting) -> None:
    """Check that the ladder and its values ascend and are distinct."""
    ladder = list(setting.ladder)
    assert ladder == sorted(set(ladder))
    values = [setting.value(position) for position in range(ladder[0], min(ladder[-1], ladder[0] + 300) + 1)]
    assert values == sorted(set(values))
    assert 0 <= setting.start < len(ladder)


def test_nodes_of_a_mix_keep_its_jobs() -> None:
    setting = NodeCount(mix(12), POLICY, 12, mix)
    source, policy = setting.apply(5)
    assert isinstance(source, Scenario)
    assert (submissions(source), policy) == (submissions(mix(12)), POLICY)
    assert source.nodes is not None
    assert len(source.nodes.infos) == 5
    assert submissions(source) != submissions(mix(5))
    assert (setting.name, setting.present, setting.text(1200)) == ("nodes", 12, "1,200")
    assert list(setting.ladder) == [1, 3, 6, 12, 24, 48, 96, 192, 384, 768]
    assert setting.ladder[setting.start] == 12
    check_ladder(setting)


def test_processors_of_a_log() -> None:
    setting = NodeCount(SwfLog(LoggedJobs(), 100, [], 0), POLICY, 100)
    source, _ = setting.apply(64)
    assert isinstance(source, SwfLog)
    assert (source.processors, setting.name, setting.value(3)) == (64, "processors", 3)


def test_one_quota_changes() -> None:
    target, nominal = find_quota(SCENARIO, "a:cpu:fast")
    setting = NominalQuota(SCENARIO, POLICY, target, nominal)
    source, _ = setting.apply(11)
    assert isinstance(source, Scenario)
    assert source.queues[1:] == SCENARIO.queues[1:]
    assert dict(resource_quotas(source.queues[0].resource_groups)) == {
        FlavorResource("spot", "cpu"): ResourceQuota(8000, 5, 7),
        FlavorResource("fast", "cpu"): ResourceQuota(11_000, 5, 7),
    }
    assert (setting.name, setting.present) == ("quota of a, cpu", 8)
    assert list(setting.ladder)[:5] == [1, 2, 4, 8, 16]
    assert setting.ladder[setting.start] == 8
    check_ladder(setting)


def test_a_quota_of_memory_is_in_gib() -> None:
    setting = NominalQuota(SCENARIO, POLICY, *find_quota(SCENARIO, "b:memory:spot"))
    source, _ = setting.apply(4)
    assert isinstance(source, Scenario)
    quotas = dict(resource_quotas(source.queues[1].resource_groups))
    assert quotas[FlavorResource("spot", "memory")].nominal == 4 * GIB
    assert (setting.name, setting.present) == ("quota of b, memory GiB", 3)
    partial = setting._replace(nominal=GIB // 2)
    assert partial.present is None
    assert partial.ladder[partial.start] == 1


@pytest.mark.parametrize("resource", ["ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi"])
def test_a_quota_of_bytes_is_in_gib(resource: str) -> None:
    target = QuotaTarget("b", FlavorResource("spot", resource))
    setting = NominalQuota(SCENARIO, POLICY, target, 8 * GIB)
    assert (setting.name, setting.present) == (f"quota of b, {resource} GiB", 8)
    assert setting.ladder[setting.start] == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names more than one quota: write one of quota:a:cpu:spot, quota:a:cpu:fast, quota:b"),
        ("a", "quota:a names more than one quota: write one of quota:a:cpu:spot, quota:a:cpu:fast$"),
        ("d", "quota:d names no limited quota: write one of quota:a:cpu:spot"),
        ("c:gpu:fast", "quota:c:gpu:fast names no limited quota"),
    ],
)
def test_a_quota_must_be_unambiguous(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_quota(SCENARIO, text)


def test_the_only_quota_needs_no_name() -> None:
    only = replace_queues(ClusterQueue("a", (resource_group(FlavorQuotas("f", (("gpu", ResourceQuota(4)),))),)))
    assert find_quota(only, "") == (("a", FlavorResource("f", "gpu")), 4)
    with pytest.raises(InputError, match="names no limited quota: write one of none"):
        find_quota(replace_queues(), "")


def replace_queues(*queues: ClusterQueue) -> Scenario:
    return SCENARIO._replace(queues=queues)


def test_thresholds_of_reservations() -> None:
    setting = ReserveAfter(SCENARIO, 336 * 3600.0)
    check_ladder(setting)
    assert setting.value(setting.ladder[0]) == 900
    assert setting.value(setting.ladder[-1]) == 14 * 86_400
    assert setting.present is not None
    source, policy = setting.apply(setting.present)
    assert (source, policy) == (SCENARIO, POLICY)
    assert setting.apply(0)[1].reserve_after == 900
    assert [setting.text(position) for position in (0, 3, setting.present)] == ["15m", "1h", "336h"]
    assert setting._replace(after=7.0).present is None


@pytest.mark.parametrize("spec", ["0x4", "nodes.yaml", "", "4xx", "4x2x3x4"])
def test_nodes_need_a_number(spec: str) -> None:
    with pytest.raises(InputError, match="write NUMBERxCPUS"):
        parse_node_count(spec)


def test_a_number_of_nodes() -> None:
    assert parse_node_count("64x48x256Gi") == (64, "x48x256Gi")
    assert parse_node_count("64") == (64, "")


def test_an_error_lists_only_the_first_of_many_quotas() -> None:
    many = SCENARIO._replace(queues=tuple(SCENARIO.queues[0]._replace(name=f"q{i}") for i in range(9)))
    with pytest.raises(InputError, match=r"write one of quota:q0:cpu:spot, quota:q0:cpu:fast, .* and \d+ more$"):
        find_quota(many, "")
