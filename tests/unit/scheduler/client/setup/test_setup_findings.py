"""The findings of `zonewise check` about the setup of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.client.nodes.node_facts import NodeAvailability, ZoneFacts
from zonewise_scheduler.client.queues.queue_facts import FlavorUsage, QueueFacts
from zonewise_scheduler.client.setup.setup_findings import (
    ABSENT,
    ERROR,
    OK,
    UNKNOWN,
    WARNING,
    ClusterSetup,
    SetupNode,
    setup_findings,
)
from zonewise_scheduler.quota.api.amount import UNLIMITED

GPU = "nvidia.com/gpu"
ZONES = (ZoneFacts(0, {}), ZoneFacts(1, {}))


def node(name: str = "n", labels: dict[str, str] | None = None, **facts: Any) -> SetupNode:
    own: dict[str, Any] = {
        "ready": True,
        "allocatable": {"cpu": 64000, GPU: 8},
        "zones": ZONES,
        "policy": "restricted/pod",
        **facts,
    }
    return SetupNode(NodeAvailability(name, **own), labels or {})


def cluster_queue(nominal: int = 8, resource: str = GPU, name: str = "q", **facts: Any) -> QueueFacts:
    usage = FlavorUsage("f", resource, nominal, None, None, 0, 0, 0)
    own: dict[str, Any] = {"resources": (usage,), "active": True, **facts}
    return QueueFacts("ClusterQueue", name, **own)


LOCAL = QueueFacts("LocalQueue", "l", "ns", active=True)
SOUND = ClusterSetup([node()], True, [cluster_queue()], [LOCAL], {"f": {}}, {})


def results(check: str, **changes: Any) -> list[tuple[str, str]]:
    findings = setup_findings(SOUND._replace(**changes))
    return [(finding.result, finding.message) for finding in findings if finding.check == check]


def only(check: str, **changes: Any) -> tuple[str, str]:
    [finding] = results(check, **changes)
    return finding


def test_a_sound_cluster_has_one_good_finding_for_each_check() -> None:
    findings = setup_findings(SOUND)
    assert [(finding.check, finding.result) for finding in findings] == [
        (check, OK) for check in ("nodes", "reports", "alignment", "schedulers", "controller", "queues", "flavors")
    ]


def test_an_error_and_a_warning_name_a_remedy() -> None:
    setup = ClusterSetup([node(zones=()), node(zones=None)], True, [], [], {}, {"zonewise": 1}, "it is gone")
    findings = [finding for finding in setup_findings(setup) if finding.result != OK]
    assert {finding.result for finding in findings} == {WARNING, ERROR}
    assert all(finding.remedy for finding in findings)


@pytest.mark.parametrize("agents", [{"a": True, "b": False}, {"a": True, "": False}, {"a": True, "gone": True}])
def test_reports_of_nodes_without_a_ready_agent_may_be_outdated(agents: dict[str, bool]) -> None:
    message = "no agent is ready on 1 of 2 nodes: b; reports of such nodes may be outdated"
    assert only("reports", nodes=[node("a"), node("b")], agents=agents) == (WARNING, message)


@pytest.mark.parametrize("agents", [None, {}, {"a": True, "b": True, "c": False}])
def test_reports_are_sound_if_all_agents_are_ready_or_none_is_known(agents: dict[str, bool] | None) -> None:
    assert only("reports", nodes=[node("a"), node("b"), node("c", ready=False)], agents=agents)[0] == OK


def test_nodes_that_get_no_pods_are_named() -> None:
    """They also explain why jobs wait. Their quotas stay, since they come back."""
    nodes = [node("a"), node("b", schedulable=False), node("c", ready=False), node("d", ready=None)]
    message = "3 of 4 nodes get no pods: b (cordoned), c (not ready), d (not ready)"
    assert only("nodes", nodes=nodes) == (WARNING, message)
    assert only("nodes", nodes=[node("a"), node("b", schedulable=False)])[1].startswith("1 of 2 nodes gets")
    assert only("flavors", nodes=nodes, cluster_queues=[cluster_queue(32)])[0] == OK
    assert only("nodes", nodes=nodes[1:]) == (ERROR, "no node is ready and schedulable")
    assert only("nodes", nodes=[])[0] == ERROR
    assert only("nodes", nodes=None)[0] == UNKNOWN


def test_nodes_without_a_report() -> None:
    nodes = [node("a"), *(node(name, zones=None) for name in "bcdef")]
    assert only("reports", nodes=nodes) == (WARNING, "5 of 6 nodes have no report: b, c, d and 2 more")
    assert only("reports", nodes=nodes[1:])[0] == ABSENT
    ignored = [node("a"), node("b", zones=None, schedulable=False), node("c", zones=None, ready=False)]
    assert only("reports", nodes=ignored)[0] == OK
    assert only("reports", nodes=[])[0] == UNKNOWN
    assert only("reports", nodes=None)[0] == UNKNOWN


@pytest.mark.parametrize("facts", [{"policy": "none/container"}, {"policy": ""}, {"zones": ()}])
def test_kubelets_that_align_nothing(facts: dict[str, Any]) -> None:
    nodes = [node("a"), node("b", **facts)]
    assert only("alignment", nodes=nodes) == (WARNING, "1 of 2 kubelets align nothing: b")
    assert only("alignment", nodes=[node("b", zones=None)])[0] == UNKNOWN


def test_pods_of_a_scheduler_that_does_not_run() -> None:
    expected = (ERROR, "no scheduler handles 2 pods with `schedulerName: zonewise`")
    assert only("schedulers", unhandled_pods={"zonewise": 2}) == expected
    assert only("schedulers", unhandled_pods=None)[0] == UNKNOWN


def test_the_controller() -> None:
    assert only("controller", has_queues=False)[0] == ABSENT
    assert only("controller", read_api_problem="no replica leads")[0] == WARNING
    assert results("queues", has_queues=False) == []
    for has_queues in (False, True):
        result, message = only("controller", has_queues=has_queues, missing_webhook_service="ns/name")
        assert result == ERROR
        assert "Service ns/name is gone" in message


def test_queues_that_admit_nothing() -> None:
    broken = [cluster_queue(name=f"q{i}", active=False, message="is stopped") for i in range(5)]
    found = results("queues", cluster_queues=broken)
    assert found[0] == (ERROR, "ClusterQueue q0 admits nothing: is stopped")
    assert [message for _, message in found[3:]] == ["2 more queues admit nothing"]
    assert only("queues", local_queues=[]) == (ERROR, "there is no LocalQueue, so no job can start")
    unwritten = only("queues", local_queues=[LOCAL._replace(active=None)])
    assert unwritten == (ERROR, "no controller has written the status of LocalQueue ns/l")
    assert only("queues", cluster_queues=None)[0] == UNKNOWN


def test_a_flavor_without_nodes() -> None:
    labeled: dict[str, Any] = {"flavors": {"f": {"gpu": "h100"}}}
    assert only("flavors", **labeled) == (WARNING, "no schedulable node has the labels of flavor f: gpu=h100")
    matching = node(labels={"gpu": "h100", "zone": "a"})
    assert only("flavors", nodes=[matching], **labeled)[0] == OK
    cordoned = matching._replace(facts=matching.facts._replace(schedulable=False))
    assert only("flavors", nodes=[cordoned], **labeled)[0] == WARNING


@pytest.mark.parametrize(
    ("nominal", "result"), [(4, OK), (8, OK), (9, WARNING), (UNLIMITED - 1, WARNING), (UNLIMITED, OK)]
)
def test_quotas_beyond_the_nodes(nominal: int, result: str) -> None:
    """A quota without a limit is deliberate."""
    assert only("flavors", cluster_queues=[cluster_queue(nominal)])[0] == result


@pytest.mark.parametrize(("may_have", "result"), [(True, OK), (False, WARNING)])
def test_device_classes_may_provide_resources_that_no_node_has(*, may_have: bool, result: str) -> None:
    queues = [cluster_queue(resource="example.com/devices")]
    assert only("flavors", cluster_queues=[*queues, cluster_queue(name="r")], may_have_device_classes=may_have)[0] == (
        result
    )
    excess = [*queues, cluster_queue(100, name="r")]
    findings = results("flavors", cluster_queues=excess, may_have_device_classes=may_have)
    assert any(GPU in message for _, message in findings)


def test_quotas_of_all_queues_add_up_and_may_exceed_the_nodes_by_a_tenth() -> None:
    cpus = [cluster_queue(35000, "cpu", "a"), cluster_queue(35000, "cpu", "b"), cluster_queue(8)]
    assert only("flavors", cluster_queues=cpus)[0] == OK
    assert only("flavors", cluster_queues=[*cpus, cluster_queue(1000, "cpu", "c")]) == (
        WARNING,
        "flavor f has quotas of 71 cpu in total; its nodes have 64",
    )


def test_sizes_have_one_unit() -> None:
    nodes = [node(allocatable={"memory": (2048 << 30) - 12345})]
    message = "flavor f has quotas of 8192Gi memory in total; its nodes have 2048Gi"
    assert only("flavors", nodes=nodes, cluster_queues=[cluster_queue(8 << 40, "memory")]) == (WARNING, message)


def test_gpus_that_no_queue_covers() -> None:
    expected = (WARNING, "no ClusterQueue has a quota for nvidia.com/gpu, which 1 node has")
    assert only("flavors", cluster_queues=[cluster_queue(1000, "cpu")]) == expected
