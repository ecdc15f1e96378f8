"""Jobs of plain pods: single pods, groups and PodGroups, from creation to end, with failures, evictions, excess."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.plain_pods import PlainPodsWorld, queued_pod
from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import POD_GROUPS, WORKLOADS
from zonewise_scheduler.controller.pods.group_owner import GroupOwner

Json = dict[str, Any]

POD_GROUP = GroupOwner(POD_GROUPS, "pg", "u-pg", 2, {})


def started_group(*names: str) -> PlainPodsWorld:
    """Return a group whose pods all run."""
    world = PlainPodsWorld(*(queued_pod(name, total=len(names)) for name in names))
    world.settle()
    world.admit()
    world.settle()
    for name in names:
        world.run(name)
    world.settle()
    return world


# --- single pods


def test_a_single_pod_is_queued_started_and_accounted() -> None:
    world = PlainPodsWorld(queued_pod("p", group=""))
    world.settle()
    assert world.workload is not None
    assert world.workload["metadata"]["name"].startswith("pod-p-")
    [pod_set] = world.workload["spec"]["podSets"]
    assert (pod_set["name"], pod_set["count"]) == ("main", 1)
    assert "schedulingGates" not in pod_set["template"]["spec"]
    assert world.workload["metadata"]["ownerReferences"][0]["uid"] == "u-p"
    assert not world.started()
    world.admit()
    assert world.purposes()[-1] == "start: p"
    world.settle()
    pod = world.pods["p"]
    assert pod["spec"]["nodeSelector"] == {"pool": "batch"}
    assert pod["spec"]["schedulingGates"] == []
    assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
    assert pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == world.workload["metadata"]["name"]
    world.run("p")
    world.end("p", "Succeeded")
    world.settle()
    assert world.holds("Finished")
    assert not world.pods["p"]["metadata"]["finalizers"]


def test_a_pod_of_a_placed_workload_keeps_its_topology_gate() -> None:
    world = PlainPodsWorld(queued_pod("p", group=""))
    world.settle()
    world.admit()
    assert world.workload is not None
    [assignment] = world.workload["status"]["admission"]["podSetAssignments"]
    assignment["topologyAssignment"] = {"levels": [], "slices": []}
    world.settle()
    assert world.pods["p"]["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/topology"}]


def test_a_deleted_pod_is_removed_at_once() -> None:
    world = PlainPodsWorld(queued_pod("p", group=""))
    world.settle()
    world.delete("p")
    world.settle()
    assert not world.pods


def test_an_evicted_pod_gets_the_reason_and_is_deleted() -> None:
    world = PlainPodsWorld(queued_pod("p", group=""))
    world.settle()
    world.admit()
    world.settle()
    world.run("p")
    world.evict()
    assert world.purposes() == ["stop: record the reason: p"]
    world.apply(world.writes()[0])
    condition = world.pods["p"]["status"]["conditions"][-1]
    assert (condition["type"], condition["reason"]) == ("TerminationTarget", "Preempted")
    assert world.purposes() == ["stop: delete the pod: p"]


def test_a_pod_that_conflicts_with_its_flavor_cannot_start() -> None:
    pod = queued_pod("p", group="")
    pod["spec"]["nodeSelector"] = {"pool": "other"}
    world = PlainPodsWorld(pod)
    world.settle()
    world.admit()
    world.settle()
    assert world.holds("Finished")
    assert not world.started()


# --- groups


def test_a_group_is_queued_once_all_its_pods_exist() -> None:
    world = PlainPodsWorld(queued_pod("a", total=3), queued_pod("b", total=3))
    assert world.writes() == []
    world.create(queued_pod("c", total=3, cpu="2"))
    world.settle()
    assert world.workload is not None
    assert world.workload["metadata"]["name"] == "g"
    assert sorted(entry["count"] for entry in world.workload["spec"]["podSets"]) == [1, 2]
    owners = world.workload["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["a", "b", "c"]
    assert not any(owner.get("controller") for owner in owners)


def test_a_fast_group_is_queued_with_its_first_pod() -> None:
    fast = {"kueue.x-k8s.io/pod-group-fast-admission": "true"}
    world = PlainPodsWorld(queued_pod("a", total=3, **fast))
    world.settle()
    assert world.workload is not None
    assert [entry["count"] for entry in world.workload["spec"]["podSets"]] == [3]
    world.admit()
    world.settle()
    world.create(queued_pod("b", total=3, **fast))
    world.settle()
    assert world.started() == {"a", "b"}


def test_the_newest_held_pod_is_the_excess_one() -> None:
    world = PlainPodsWorld(*(queued_pod(name) for name in ("a", "b", "c")))
    world.settle()
    assert set(world.pods) == {"a", "b"}
    world.admit()
    world.settle()
    world.create(queued_pod("d"))
    world.settle()
    assert set(world.pods) == {"a", "b"}


def test_a_failed_pod_is_replaced() -> None:
    world = started_group("a", "b")
    world.end("a", "Failed")
    world.settle()
    assert world.holds("WaitingForReplacementPods")
    assert world.pods["a"]["metadata"]["finalizers"]
    world.create(queued_pod("c"))
    world.settle()
    assert world.started() == {"a", "b", "c"}
    assert not world.holds("WaitingForReplacementPods")
    assert not world.pods["a"]["metadata"]["finalizers"]
    assert world.workload is not None
    assert {owner["name"] for owner in world.workload["metadata"]["ownerReferences"]} >= {"b", "c"}


def test_a_replacement_may_exist_before_the_replaced_pod_is_deleted() -> None:
    world = started_group("a", "b")
    world.delete("a")
    world.create(queued_pod("c"))
    world.settle()
    assert set(world.pods) == {"a", "b", "c"}
    assert world.started() == {"a", "b"}
    world.end("a", "Failed")
    world.settle()
    assert world.started() == {"b", "c"}


def test_a_group_ends_when_its_number_of_pods_has_succeeded() -> None:
    world = started_group("a", "b")
    world.end("a", "Succeeded")
    world.settle()
    assert not world.holds("Finished")
    assert world.workload is not None
    assert [entry["count"] for entry in world.workload["status"]["reclaimablePods"]] == [1]
    world.end("b", "Succeeded")
    world.settle()
    assert world.holds("Finished")
    assert not any(pod["metadata"]["finalizers"] for pod in world.pods.values())


def test_a_group_that_is_not_retriable_ends_with_its_last_pod() -> None:
    world = started_group("a", "b")
    world.pods["a"]["metadata"]["annotations"]["kueue.x-k8s.io/retriable-in-group"] = "false"
    world.end("a", "Failed")
    world.settle()
    assert not world.holds("Finished")
    world.end("b", "Succeeded")
    world.settle()
    assert world.holds("Finished")
    assert world.workload is not None
    [finished] = [entry for entry in world.workload["status"]["conditions"] if entry["type"] == "Finished"]
    assert (finished["reason"], finished["message"]) == ("Failed", "Pods succeeded: 1/2.")


def test_a_serving_group_never_ends() -> None:
    serving = {"kueue.x-k8s.io/pod-group-serving": "true"}
    world = PlainPodsWorld(*(queued_pod(name, total=2, **serving) for name in ("a", "b")))
    world.settle()
    world.admit()
    world.settle()
    for name in ("a", "b"):
        world.run(name)
        world.end(name, "Succeeded")
    world.settle()
    assert not world.holds("Finished")


def test_an_evicted_group_releases_its_quota_once_no_pod_is_active() -> None:
    world = started_group("a", "b")
    world.evict()
    world.settle()
    assert all("deletionTimestamp" in pod["metadata"] for pod in world.pods.values())
    assert world.holds("QuotaReserved")
    world.end("a", "Failed")
    world.settle()
    assert world.holds("QuotaReserved")
    world.end("b", "Failed")
    world.settle()
    assert not world.holds("QuotaReserved")
    assert world.holds("WaitingForReplacementPods")
    for name in ("c", "d"):
        world.create(queued_pod(name))
    world.settle()
    assert set(world.pods) == {"c", "d"}
    world.admit()
    world.settle()
    assert world.started() == {"c", "d"}


def test_an_evicted_group_waits_for_replacements_before_its_quota_is_released() -> None:
    """It must not be admitted again between the two writes."""
    world = started_group("a", "b")
    world.evict()
    world.settle()
    for name in ("a", "b"):
        world.pods[name]["status"]["phase"] = "Failed"
    assert world.purposes() == ["await replacements: g"]
    world.apply(world.writes()[0])
    assert world.purposes() == ["release quota: g"]


def test_a_group_is_cancelled_even_if_one_of_its_deleted_pods_has_succeeded() -> None:
    world = started_group("a", "b")
    world.end("a", "Succeeded")
    world.settle()
    world.delete("a")
    world.settle()
    assert world.pods["a"]["metadata"]["finalizers"]
    world.delete("b")
    world.end("b", "Failed")
    world.settle()
    assert not world.pods


def test_a_group_whose_pods_a_user_deletes_is_cancelled() -> None:
    world = PlainPodsWorld(queued_pod("a"), queued_pod("b"))
    world.settle()
    world.delete("a")
    world.settle()
    assert "a" in world.pods
    world.delete("b")
    world.settle()
    assert not world.pods


def test_pending_pods_with_other_roles_cause_a_new_workload() -> None:
    world = PlainPodsWorld(queued_pod("a"), queued_pod("b"))
    world.settle()
    world.delete("b")
    world.create(queued_pod("c", cpu="2"))
    world.settle()
    assert world.workload is not None
    assert [entry["count"] for entry in world.workload["spec"]["podSets"]] == [1, 1]


def test_pods_without_a_workload_stop_if_they_can_get_another() -> None:
    world = started_group("a", "b")
    world.workload = None
    assert [write.needs for write in world.writes()] == [WORKLOADS, WORKLOADS]
    world.settle()
    assert all("deletionTimestamp" in pod["metadata"] for pod in world.pods.values())


def test_a_pod_that_has_succeeded_can_be_deleted_once_its_group_has_no_workload() -> None:
    """Until it is deleted, it counts as one of the pods of a new Workload."""
    world = started_group("a", "b")
    world.end("a", "Succeeded")
    world.evict()
    world.settle()
    world.end("b", "Failed")
    world.workload = None
    world.settle()
    assert {name: bool(pod["metadata"]["finalizers"]) for name, pod in world.pods.items()} == {"a": True}
    world.delete("a")
    world.settle()
    assert "a" not in world.pods


def test_a_workload_of_another_job_with_the_name_of_the_group_is_not_changed() -> None:
    world = PlainPodsWorld(queued_pod("a"), queued_pod("b"))
    world.workload = {"metadata": {"name": "g", "uid": "u"}, "spec": {}, "status": {}}
    with pytest.raises(FieldError, match="the Workload 'g' exists"):
        world.writes()


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("kueue.x-k8s.io/queue-name", "pod a has 'q', pod b of its group 'r'"),
    ],
)
def test_pods_with_contradictory_settings_form_no_job(label: str, message: str) -> None:
    second = queued_pod("b")
    second["metadata"]["labels"][label] = "r"
    with pytest.raises(FieldError, match=message):
        PlainPodsWorld(queued_pod("a"), second).writes()


@pytest.mark.parametrize("total", [0, -1, 10**12])
def test_the_number_of_pods_is_checked(total: int) -> None:
    with pytest.raises(FieldError, match="not a number of pods"):
        PlainPodsWorld(queued_pod("a", total=total)).writes()


def test_a_group_has_as_many_roles_as_a_workload_has_pod_sets() -> None:
    def group(roles: int) -> PlainPodsWorld:
        return PlainPodsWorld(*(queued_pod(f"p{cpu}", total=roles, cpu=str(cpu)) for cpu in range(roles)))

    [workload] = [write.body for write in group(18).writes() if write.purpose == "create the Workload"]
    assert isinstance(workload, dict)
    assert len(workload["spec"]["podSets"]) == 18
    with pytest.raises(FieldError, match="19 roles"):
        group(19).writes()


# --- PodGroups


def test_pods_beyond_the_size_of_a_pod_group_wait() -> None:
    world = PlainPodsWorld(*(queued_pod(name, group="") for name in ("a", "b", "c")), group=POD_GROUP)
    world.settle()
    assert world.workload is not None
    assert [entry["count"] for entry in world.workload["spec"]["podSets"]] == [2]
    assert world.workload["metadata"]["ownerReferences"][0]["kind"] == "PodGroup"
    world.admit()
    world.settle()
    assert world.started() == {"a", "b"}
    world.run("a")
    world.end("a", "Succeeded")
    world.settle()
    assert world.started() == {"a", "b", "c"}
    for name in ("b", "c"):
        world.run(name)
        world.end(name, "Succeeded")
    world.settle()
    assert world.holds("Finished")


# --- histories


@given(
    total=st.integers(1, 3),
    running=st.booleans(),
    actions=st.lists(
        st.tuples(
            st.sampled_from(["create", "delete", "write", "settle", "run", "fail", "succeed", "admit", "evict"]),
            st.integers(0, 5),
        ),
        min_size=5,
        max_size=40,
    ),
)
def test_no_more_pods_start_than_are_admitted_and_a_group_ends(
    total: int, actions: list[tuple[str, int]], *, running: bool
) -> None:
    """Writes happen in any order and some do not happen at all, as if the controller were killed after any of them."""
    names = [f"p{index}" for index in range(total)]
    world = started_group(*names) if running else PlainPodsWorld(*(queued_pod(name, total=total) for name in names))
    for action, choice in actions:
        act(world, action, choice, total)
        check(world, total)
    finish(world, total)
    assert world.holds("Finished")
    assert not any(pod["metadata"]["finalizers"] for pod in world.pods.values())


def act(world: PlainPodsWorld, action: str, choice: int, total: int) -> None:
    names = list(world.pods)
    if action == "create" or not names:
        world.create(queued_pod(f"p{world.serial}", total=total))
        return
    name = names[choice % len(names)]
    can_run = name in world.started() and world.pods[name]["status"]["phase"] == "Pending"
    if action == "write" and (writes := world.writes()):
        world.apply(writes[choice % len(writes)])
    elif action == "settle":
        world.settle()
    elif action == "run" and can_run:
        world.run(name)
    elif action in {"fail", "succeed"} and world.pods[name]["status"]["phase"] == "Running":
        world.end(name, "Failed" if action == "fail" else "Succeeded")
    elif action == "delete":
        world.delete(name)
    elif action == "admit" and world.workload is not None and not world.holds("QuotaReserved"):
        if not world.holds("Finished"):
            world.admit()
    elif action == "evict" and world.holds("Admitted") and not world.holds("Evicted") and not world.holds("Finished"):
        world.evict()


def check(world: PlainPodsWorld, total: int) -> None:
    pods = [world.pods[name] for name in world.started()]
    active = [pod for pod in pods if pod["status"]["phase"] in {"Pending", "Running"}]
    can_run = [pod for pod in active if "nodeName" in pod["spec"] or "deletionTimestamp" not in pod["metadata"]]
    assert len(can_run) <= total


def finish(world: PlainPodsWorld, total: int) -> None:
    """Let users replace missing pods, let the planner admit, and let all pods succeed."""
    for _ in range(20):
        world.settle()
        check(world, total)
        if world.holds("Finished"):
            return
        if not world.pods:
            world.workload = None  # its owners were deleted
        replace_missing(world, total)
        world.settle()
        if world.workload is not None and not world.holds("QuotaReserved"):
            world.admit()
            world.settle()
        succeed(world)


def replace_missing(world: PlainPodsWorld, total: int) -> None:
    for name, pod in list(world.pods.items()):
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" in pod["metadata"]:
            world.end(name, "Failed")
    live = [pod for pod in world.pods.values() if pod["status"]["phase"] != "Failed"]
    present = sum("deletionTimestamp" not in pod["metadata"] or "nodeName" in pod["spec"] for pod in live)
    for _ in range(total - present):
        world.create(queued_pod(f"p{world.serial}", total=total))


def succeed(world: PlainPodsWorld) -> None:
    for name in sorted(world.started()):
        pod = world.pods[name]
        if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] in {"Pending", "Running"}:
            world.run(name)
            world.end(name, "Succeeded")
