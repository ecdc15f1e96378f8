"""Workloads that wait for provisioned capacity: ProvisioningRequests are created, followed, repeated and deleted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.provisioning import CHECK, CONFIG, FLAVORS, NOW, ProvisioningStory, container, pod_set, workload
from zonewise_scheduler.controller.admissionchecks.provisioning_config import ProvisioningConfig

Json = dict[str, Any]

FIRST = "w-capacity-1"


def test_a_request_follows_its_templates_and_owns_them() -> None:
    story = ProvisioningStory(workload(annotations={"provreq.kueue.x-k8s.io/zone": "a", "other": "b"}))
    assert story.settle() == ["create the PodTemplate", "create the ProvisioningRequest", "adopt the PodTemplate"]
    request = story.requests[FIRST]
    assert request["spec"] == {
        "provisioningClassName": "check-capacity",
        "parameters": {"size": "large", "zone": "a"},
        "podSets": [{"podTemplateRef": {"name": f"ppt-{FIRST}-main"}, "count": 3}],
    }
    assert request["metadata"]["ownerReferences"][0]["uid"] == "u-w"
    template = story.pod_templates[f"ppt-{FIRST}-main"]
    assert template["metadata"]["ownerReferences"][0]["uid"] == request["metadata"]["uid"]
    assert template["template"]["spec"]["nodeSelector"] == FLAVORS["f"]["spec"]["nodeLabels"]
    assert template["template"]["spec"]["tolerations"] == FLAVORS["f"]["spec"]["tolerations"]
    assert template["template"]["metadata"]["labels"] == {"set": "main"}
    assert story.check["state"] == "Pending"


def test_an_annotation_replaces_a_parameter_of_the_configuration() -> None:
    story = ProvisioningStory(workload(annotations={"provreq.kueue.x-k8s.io/size": "small"}))
    story.settle()
    assert story.requests[FIRST]["spec"]["parameters"] == {"size": "small"}
    assert story.settle() == [], "the request is not created again"


def test_provisioned_capacity_makes_the_check_ready_and_directs_the_pods_to_it() -> None:
    config = CONFIG._replace(node_selector=(("group", "NodeGroup"), ("absent", "None")))
    story = ProvisioningStory(workload(), {CHECK: config})
    story.settle()
    story.observe(FIRST, "Accepted", "Provisioned", provisioningClassDetails={"NodeGroup": "g1"})
    assert story.settle() == ["update the check"]
    assert story.check["state"] == "Ready"
    assert story.check["message"] == "Provisioned message"
    annotations = {
        "autoscaling.x-k8s.io/consume-provisioning-request": FIRST,
        "autoscaling.x-k8s.io/provisioning-class-name": "check-capacity",
    }
    assert story.check["podSetUpdates"] == [
        {"name": "main", "annotations": annotations, "nodeSelector": {"group": "g1"}}
    ]


def test_a_failed_request_is_repeated_with_backoff_until_no_attempt_is_left() -> None:
    story = ProvisioningStory(workload())
    for attempt, backoff in ((1, 60), (2, 100)):
        story.settle()
        assert list(story.requests) == [f"w-capacity-{attempt}"]
        story.observe(f"w-capacity-{attempt}", "Failed")
        assert story.settle() == ["update the check"]
        assert (story.check["state"], story.check["requeueAfterSeconds"]) == ("Retry", backoff)
        assert story.check["message"] == "Retrying after failure: Failed message"
        story.evict()
        assert story.check["state"] == "Pending"
        assert story.settle() == ["delete the ProvisioningRequest"]
        assert not story.objects
        story.reserve_again()
    story.settle()
    story.observe("w-capacity-3", "Failed")
    story.settle()
    assert (story.check["state"], story.check["message"]) == ("Rejected", "Failed message")


@pytest.mark.parametrize(
    ("conditions", "admitted", "state", "message"),
    [
        ((), False, "Pending", ""),
        (("Accepted",), False, "Pending", ""),
        (("BookingExpired", "Provisioned"), False, "Retry", "Retrying after booking expired: BookingExpired message"),
        (("BookingExpired", "Provisioned"), True, "Ready", "Provisioned message"),
        (("CapacityRevoked", "Provisioned"), True, "Rejected", "CapacityRevoked message"),
        (("Failed", "Provisioned"), True, "Retry", "Retrying after failure: Failed message"),
    ],
)
def test_later_conditions_count(conditions: tuple[str, ...], admitted: bool, state: str, message: str) -> None:
    story = ProvisioningStory(workload())
    story.settle()
    if admitted:
        story.observe(FIRST, "Provisioned")
        story.settle()
        story.workload["status"]["conditions"].append({"type": "Admitted", "status": "True"})
    story.observe(FIRST, *conditions)
    story.settle()
    assert (story.check["state"], story.check["message"]) == (state, message)


def test_the_check_of_an_accepted_request_shows_when_nodes_are_expected() -> None:
    story = ProvisioningStory(workload())
    story.settle()
    eta = {"type": "Provisioned", "status": "False", "message": "nodes in 5 min"}
    story.requests[FIRST]["status"] = {"conditions": [{"type": "Accepted", "status": "True"}, eta]}
    story.settle()
    assert (story.check["state"], story.check["message"]) == ("Pending", "nodes in 5 min")


def test_revoked_capacity_of_an_inactive_workload_changes_nothing() -> None:
    story = ProvisioningStory(workload())
    story.settle()
    story.workload["spec"]["active"] = False
    story.observe(FIRST, "CapacityRevoked")
    assert story.settle() == []


def test_pod_sets_without_a_managed_resource_need_no_request() -> None:
    story = ProvisioningStory(workload(), {CHECK: CONFIG._replace(managed_resources=frozenset({"gpu"}))})
    assert story.settle() == ["update the check"]
    assert (story.check["state"], story.check["message"]) == ("Ready", "the provisioning request is not needed")
    assert not story.objects


def test_only_pod_sets_with_a_managed_resource_are_requested() -> None:
    gpu = pod_set("b", 2)
    gpu["template"]["spec"]["containers"] = [container(limits={"gpu": "1", "cpu": "2"}, requests={"cpu": "1"})]
    story = ProvisioningStory(
        workload(pod_set("a"), gpu, pod_set("c", 0)), {CHECK: CONFIG._replace(managed_resources=frozenset({"gpu"}))}
    )
    story.settle()
    assert [(item["count"]) for item in story.requests[FIRST]["spec"]["podSets"]] == [2]
    [template] = story.pod_templates.values()
    [made] = template["template"]["spec"]["containers"]
    assert made["resources"]["requests"] == {"gpu": "1", "cpu": "1"}


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        ("", [1, 2, 3]),
        ("IdenticalPodTemplates", [1, 2, 3]),
        ("IdenticalWorkloadSchedulingRequirements", [3, 3]),
    ],
)
def test_similar_pod_sets_are_merged_according_to_the_policy(policy: Any, counts: list[int]) -> None:
    story = ProvisioningStory(
        workload(pod_set("a", 1), pod_set("b", 2), pod_set("c", 3, cpu="2")),
        {CHECK: CONFIG._replace(merge_policy=policy)},
    )
    story.settle()
    assert [item["count"] for item in story.requests[FIRST]["spec"]["podSets"]] == counts
    story.observe(FIRST, "Provisioned")
    story.settle()
    assert [update["name"] for update in story.check["podSetUpdates"]] == ["a", "b", "c"]


def test_identical_templates_are_merged() -> None:
    sets = [pod_set("a", 1), pod_set("a", 2) | {"name": "b"}]
    story = ProvisioningStory(workload(*sets), {CHECK: CONFIG._replace(merge_policy="IdenticalPodTemplates")})
    story.settle()
    assert [item["count"] for item in story.requests[FIRST]["spec"]["podSets"]] == [3]


def test_a_check_without_a_configuration_waits() -> None:
    story = ProvisioningStory(workload(), {CHECK: None})
    assert story.settle() == ["follow the ProvisioningRequest"]
    assert (story.check["state"], story.check["message"]) == ("Pending", "the check is not active")
    story.checks[CHECK] = CONFIG
    story.settle()
    assert list(story.requests) == [FIRST]


def test_a_request_of_another_class_is_replaced() -> None:
    story = ProvisioningStory(workload())
    story.settle()
    story.checks[CHECK] = CONFIG._replace(provisioning_class="best-effort-atomic-scale-up")
    assert "delete the ProvisioningRequest" in story.settle()
    assert story.requests[FIRST]["spec"]["provisioningClassName"] == "best-effort-atomic-scale-up"


def test_checks_of_other_controllers_are_not_changed() -> None:
    story = ProvisioningStory(workload(checks=("theirs", CHECK)))
    story.settle()
    story.observe(FIRST, "Provisioned")
    story.settle()
    states = {check["name"]: check["state"] for check in story.workload["status"]["admissionChecks"]}
    assert states == {"theirs": "Pending", CHECK: "Ready"}


def test_each_check_has_a_request_of_its_own() -> None:
    story = ProvisioningStory(workload(checks=("a", "b")), {"a": CONFIG, "b": ProvisioningConfig("other")})
    story.settle()
    assert {name: request["spec"]["provisioningClassName"] for name, request in story.requests.items()} == {
        "w-a-1": "check-capacity",
        "w-b-1": "other",
    }


def test_requests_with_another_owner_are_not_deleted() -> None:
    story = ProvisioningStory(workload())
    story.settle()
    story.requests[FIRST]["metadata"]["ownerReferences"][0]["uid"] = "u-other"
    story.workload["status"]["conditions"] = [{"type": "Finished", "status": "True"}]
    assert story.settle() == []


def test_a_template_is_not_created_before_that_of_an_earlier_request_is_deleted() -> None:
    story = ProvisioningStory(workload())
    story.settle()
    [request] = [key for key in story.objects if key.name == FIRST]
    del story.objects[request]
    assert story.writes() == []
    story.objects.clear()
    assert [write.purpose for write in story.writes()] == ["create the PodTemplate"]


def test_a_missing_flavor_is_reported_in_the_message() -> None:
    obj = workload()
    obj["status"]["admission"]["podSetAssignments"][0]["flavors"] = {"cpu": "gone"}
    story = ProvisioningStory(obj)
    assert story.settle() == ["follow the ProvisioningRequest"]
    problem = "status.admission.podSetAssignments: ResourceFlavor gone does not exist"
    assert story.check["message"] == f"no ProvisioningRequest can be created: {problem}"


STEPS = st.lists(
    st.sampled_from(["Accepted", "Provisioned", "Failed", "BookingExpired", "CapacityRevoked", "evict", "class"]),
    max_size=10,
)


@given(STEPS)
def test_any_history_settles_with_at_most_one_request_and_none_without_quota(steps: list[str]) -> None:
    story = ProvisioningStory(workload())
    story.settle()
    for step in steps:
        story.now = NOW + 60
        if step == "evict":
            story.evict()
            story.settle()
            assert not story.objects
            story.reserve_again()
        elif step == "class":
            story.checks[CHECK] = CONFIG._replace(provisioning_class=f"class-{len(steps)}")
        elif story.requests:
            story.observe(next(iter(story.requests)), step)
        story.settle()
        assert len(story.requests) <= 1
        assert len(story.pod_templates) <= len(story.requests)
        assert story.requests or story.check["state"] != "Pending"
