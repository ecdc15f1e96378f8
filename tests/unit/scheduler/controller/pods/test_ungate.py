"""The ungating of pods: when, to which domain, and with which patch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.held_pods import GATE, INDEX, assigned_workload, held_pod, managed, patched
from zonewise_scheduler.controller.pods.node_pin import NodePin
from zonewise_scheduler.controller.pods.ungate import UngateContext, find_ungatings, ungate_write

if TYPE_CHECKING:
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod

Json = dict[str, Any]

NODES = {"h1": "node-1", "h2": "node-2", "h3": "node-3"}


def ungated(
    workload: Json,
    pods: list[Json],
    context: UngateContext = UngateContext(NODES),  # noqa: B008 -- immutable
) -> dict[str, str]:
    """Return the node of each pod that is to be ungated."""
    return {item.pod.name: item.pin.node for item in find_ungatings(workload, [managed(pod) for pod in pods], context)}


def running(name: str, node: str, *, index: int | None = None, phase: str = "Running") -> Json:
    pod = held_pod(name, index=index, schedulingGates=[], nodeName=node)
    pod["status"]["phase"] = phase
    return pod


def test_pods_go_to_the_domains_of_their_ranks() -> None:
    pods = [held_pod(f"p{index}", index=index) for index in (2, 0, 1)]
    assert ungated(assigned_workload({"h1": 2, "h2": 1}), pods) == {"p0": "node-1", "p1": "node-1", "p2": "node-2"}


def test_pods_without_ranks_fill_the_domains_in_order() -> None:
    pods = [held_pod(name) for name in ("a", "b", "c")]
    workload = assigned_workload({"h1": 2, "h2": 1}, indexed=False)
    assert ungated(workload, pods) == {"a": "node-1", "b": "node-1", "c": "node-2"}


def test_a_replacement_takes_over_the_node_of_the_failed_pod() -> None:
    pods = [running("a", "node-1", phase="Failed"), running("b", "node-2"), held_pod("c")]
    assert ungated(assigned_workload({"h1": 1, "h2": 1}, indexed=False), pods) == {"c": "node-1"}


def test_a_terminating_pod_still_counts_on_its_node() -> None:
    old = running("a", "node-1", index=0)
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pods = [old, running("b", "node-2", index=1), held_pod("c", index=0)]
    assert ungated(assigned_workload({"h1": 1, "h2": 1}), pods) == {}
    assert ungated(assigned_workload({"h1": 1, "h2": 1}), pods[1:]) == {"c": "node-1"}


def test_ranks_do_not_count_once_a_pod_runs_on_another_node() -> None:
    pods = [running("a", "node-2", index=0), held_pod("b", index=1)]
    assert ungated(assigned_workload({"h1": 1, "h2": 1}), pods) == {"b": "node-1"}


def test_a_pod_ungated_by_another_client_counts_in_some_domain() -> None:
    stray = held_pod("a", schedulingGates=[])
    pods = [stray, held_pod("b"), held_pod("c")]
    assert len(ungated(assigned_workload({"h1": 1, "h2": 1}, indexed=False), pods)) == 1


def test_a_pod_on_a_replaced_node_does_not_count() -> None:
    pods = [running("a", "node-9"), held_pod("b"), held_pod("c")]
    workload = assigned_workload({"h1": 1, "h2": 1}, indexed=False)
    assert ungated(workload, pods) == {"b": "node-1", "c": "node-2"}


@pytest.mark.parametrize("condition", ["Evicted", "Finished"])
def test_pods_of_a_workload_that_is_to_stop_remain_held(condition: str) -> None:
    workload = assigned_workload({"h1": 1})
    workload["status"]["conditions"].append({"type": condition, "status": "True"})
    assert ungated(workload, [held_pod("a", index=0)]) == {}


def test_pods_of_a_workload_that_waits_for_checks_remain_held() -> None:
    workload = assigned_workload({"h1": 1})
    workload["status"]["conditions"] = [{"type": "QuotaReserved", "status": "True"}]
    assert ungated(workload, [held_pod("a", index=0)]) == {}


def test_a_gang_is_ungated_once_it_is_complete() -> None:
    workload = assigned_workload({"h1": 2, "h2": 1}, indexed=False)
    pods = [held_pod("a"), held_pod("b"), held_pod("c")]
    assert ungated(workload, pods[:2]) == {}
    assert len(ungated(workload, pods)) == 3
    assert len(ungated(workload, pods[:2], UngateContext(NODES, whole_gangs=False))) == 2


def test_a_pod_set_does_not_wait_for_the_pods_of_another() -> None:
    """The workers of a JobSet with `dependsOn` are created once its driver is ready."""
    workload = assigned_workload({"h1": 2, "h2": 1}, indexed=False)
    [one] = assigned_workload({"h3": 1}, indexed=False)["status"]["admission"]["podSetAssignments"]
    workload["spec"]["podSets"].append({"name": "driver", "count": 1})
    workload["status"]["admission"]["podSetAssignments"].append({**one, "name": "driver"})
    driver, pods = held_pod("d", "driver"), [held_pod(name) for name in ("a", "b", "c")]
    assert ungated(workload, [driver]) == {"d": "node-3"}
    assert ungated(workload, [driver, *pods[:2]]) == {"d": "node-3"}
    assert len(ungated(workload, [driver, *pods])) == 4


@pytest.mark.parametrize("label", ["apps.kubernetes.io/pod-index", "leaderworkerset.sigs.k8s.io/worker-index"])
def test_the_first_pods_of_a_set_do_not_wait_for_the_others(label: str) -> None:
    """By default, a StatefulSet creates a pod once the previous one is ready. LeaderReady is similar."""
    workload = assigned_workload({"h1": 2, "h2": 1})
    workload["spec"]["podSets"][0]["topologyRequest"]["podIndexLabel"] = label
    pods = [held_pod(f"web-{index}") for index in range(3)]
    for index, pod in enumerate(pods):
        pod["metadata"]["labels"][label] = str(index)
    assert ungated(workload, pods[:1]) == {"web-0": "node-1"}
    assert ungated(workload, pods[2:]) == {"web-2": "node-2"}


def test_a_replacement_does_not_wait_for_others() -> None:
    workload = assigned_workload({"h1": 2, "h2": 1}, indexed=False)
    assert ungated(workload, [running("a", "node-1"), held_pod("b")]) == {"b": "node-1"}


def test_a_gang_is_complete_without_its_reclaimable_pods() -> None:
    workload = assigned_workload({"h1": 2, "h2": 1}, indexed=False)
    workload["status"]["reclaimablePods"] = [{"name": "main", "count": 2}]
    assert ungated(workload, [held_pod("a")]) == {"a": "node-1"}


def test_pods_wait_for_another_node_if_theirs_is_unhealthy_or_deleted() -> None:
    workload = assigned_workload({"h1": 1, "h2": 1, "gone": 1})
    workload["status"]["unhealthyNodes"] = [{"name": "node-2"}]
    pods = [held_pod(f"p{index}", index=index) for index in range(3)]
    assert ungated(workload, pods) == {"p0": "node-1"}


def test_the_jobs_of_a_job_set_have_consecutive_ranks() -> None:
    workload = assigned_workload({"h1": 2, "h2": 2})
    label = "jobset.sigs.k8s.io/job-index"
    request: Json = {"podIndexLabel": INDEX, "subGroupIndexLabel": label, "subGroupCount": 2}
    workload["spec"]["podSets"][0]["topologyRequest"] = request
    pods: list[Json] = []
    for group in range(2):
        for index in range(2):
            pod = held_pod(f"p{group}{index}", index=index)
            pod["metadata"]["labels"][label] = str(group)
            pods.append(pod)
    assert ungated(workload, pods) == {"p00": "node-1", "p01": "node-1", "p10": "node-2", "p11": "node-2"}


def test_the_ranks_of_the_workers_of_a_leader_begin_at_1() -> None:
    workload = assigned_workload({"h1": 1, "h2": 1})
    label = "leaderworkerset.sigs.k8s.io/worker-index"
    request: Json = {"podIndexLabel": label, "podSetGroupName": "g"}
    workload["spec"]["podSets"][0]["topologyRequest"] = request
    workload["spec"]["podSets"].append({"name": "leader", "count": 1, "topologyRequest": request})
    workload["status"]["admission"]["podSetAssignments"].append({"name": "leader", "count": 1})
    pods = [held_pod(f"w{index}") for index in (1, 2)]
    for index, pod in enumerate(pods):
        pod["metadata"]["labels"][label] = str(index + 1)
    assert ungated(workload, pods[::-1]) == {"w1": "node-1", "w2": "node-2"}


def test_a_domain_above_nodes_is_pinned_by_its_labels() -> None:
    workload = assigned_workload({"r1": 1}, level="rack")
    [ungating] = find_ungatings(workload, [managed(held_pod("a", index=0))], UngateContext({}))
    assert ungating.pin == NodePin(labels={"rack": "r1"})


def apply_patch(pod: Json, predicted: str = "") -> Json:
    [ungating] = find_ungatings(assigned_workload({"h1": 1}, indexed=False), [managed(pod)], UngateContext(NODES))
    ungating = ungating._replace(predicted_admission=predicted)
    write = ungate_write(ungating)
    assert (write.uid, write.workload) == (pod["metadata"]["uid"], "ns/w")
    once = patched(pod, write)
    assert patched(once, write) == once, "a patch can be repeated"
    assert _without_labels(managed(once)) == _without_labels(ungating.pod_after)
    return once


def _without_labels(pod: ManagedPod) -> tuple[Any, ...]:
    return pod.uid, pod.gates, dict(pod.node_selector), pod.affinity, pod.predicted_admission


def test_one_patch_pins_annotates_and_ungates() -> None:
    other = {"name": "example.com/other"}
    gates = [{"name": "kueue.x-k8s.io/topology"}, other]
    after = apply_patch(held_pod("a", schedulingGates=gates), "main zones=0")
    assert after["spec"]["schedulingGates"] == [other]
    required = after["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    field = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    assert required == {"nodeSelectorTerms": [{"matchFields": [field]}]}
    assert after["metadata"]["annotations"]["zonewise.dev/predicted-admission"] == "main zones=0"


def test_a_patch_keeps_the_requirements_of_a_pod() -> None:
    expression = {"key": "gpu", "operator": "Exists"}
    terms = [{"matchExpressions": [expression]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    after = apply_patch(held_pod("a", affinity=affinity, nodeSelector={"a": "1"}))
    assert after["spec"]["nodeSelector"] == {"a": "1"}
    required = after["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"][0]["matchExpressions"] == [expression]


ELASTIC = {"name": "kueue.x-k8s.io/elastic-job"}


def slice_of(count: int, **conditions: str) -> Json:
    """Return an admitted slice without a placement; `conditions`: the statuses of further ones."""
    workload = assigned_workload({"h1": count})
    del workload["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"]
    workload["status"]["conditions"] += [{"type": kind, "status": status} for kind, status in conditions.items()]
    return workload


@pytest.mark.parametrize(("count", "names"), [(1, []), (2, ["b"]), (3, ["b", "c"]), (9, ["b", "c", "d"])])
def test_as_many_pods_of_an_elastic_job_run_as_its_slice_covers(count: int, names: list[str]) -> None:
    """Pods that run count first. The names decide, since the Job controller creates all of them at once."""
    gates = [{"name": "other"}, ELASTIC]
    pods = [held_pod(name, schedulingGates=gates) for name in ("d", "c", "b")]
    pods += [running("a", "node-1"), running("z", "node-1", phase="Succeeded")]
    assert sorted(ungated(slice_of(count), pods)) == names
    assert ungated(slice_of(count, Evicted="True"), pods) == {}


def test_a_terminating_pod_of_an_elastic_job_is_not_ungated() -> None:
    pod = held_pod("a", schedulingGates=[ELASTIC])
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert list(ungated(slice_of(1), [pod, held_pod("b", schedulingGates=[ELASTIC])])) == ["b"]


def test_one_patch_removes_both_gates_of_a_placed_pod() -> None:
    pod = held_pod("a", index=0, schedulingGates=[GATE, {"name": "other"}, ELASTIC])
    [ungating] = find_ungatings(assigned_workload({"h1": 1}), [managed(pod)], UngateContext(NODES))
    assert ungating.pin == NodePin("node-1")
    after = patched(pod, ungate_write(ungating))
    assert after["spec"]["schedulingGates"] == [{"name": "other"}]
    assert managed(after).gates == ungating.pod_after.gates == ("other",)


def test_new_pods_of_an_elastic_job_get_what_the_checks_of_its_slice_add() -> None:
    """Of a pod whose node selector has another value, nothing can be replaced: it remains held."""
    workload = slice_of(3)
    update = {"name": "main", "nodeSelector": {"rack": "r2"}, "annotations": {"request": "2"}}
    workload["status"]["admissionChecks"] = [{"name": "c", "state": "Ready", "podSetUpdates": [update]}]
    pod = held_pod("a", schedulingGates=[ELASTIC], nodeSelector={"os": "linux"})
    old = held_pod("b", schedulingGates=[ELASTIC], nodeSelector={"rack": "r1"})
    [ungating] = find_ungatings(workload, [managed(pod), managed(old)], UngateContext(NODES))
    after = patched(pod, ungate_write(ungating))
    assert after["spec"]["nodeSelector"] == ungating.pod_after.node_selector == {"os": "linux", "rack": "r2"}
    assert after["metadata"]["annotations"]["request"] == "2"
    assert not after["spec"].get("schedulingGates")
