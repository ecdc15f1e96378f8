"""What a start adds to pods, from flavors, placements and admission checks."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.controller.jobs.interface import PodSetInfo, StartConflict
from zonewise_scheduler.controller.reconcile.start_infos import MissingFlavor, start_infos

Json = dict[str, Any]


def flavor(labels: dict[str, str], *tolerations: Json) -> Json:
    return {"spec": {"nodeLabels": labels, "tolerations": list(tolerations)}}


def workload(*assignments: Json, checks: list[Json] | None = None) -> Json:
    return {
        "metadata": {"name": "w"},
        "spec": {"queueName": "l", "podSets": [{"name": entry["name"], "count": 4} for entry in assignments]},
        "status": {
            "admission": {"clusterQueue": "q", "podSetAssignments": list(assignments)},
            "admissionChecks": checks or [],
        },
    }


def test_flavors_select_nodes_and_a_placement_gates_the_pods() -> None:
    toleration = {"key": "gpu", "operator": "Exists"}
    obj = workload(
        {"name": "driver", "flavors": {"cpu": "big"}, "count": 1},
        {"name": "ranks", "flavors": {"cpu": "big", "gpu": "h100"}, "count": 3, "topologyAssignment": {"levels": []}},
    )
    flavors = {"big": flavor({"size": "big"}), "h100": flavor({"gpu": "h100"}, toleration)}
    driver, ranks = start_infos(obj, flavors)
    labels = {
        "kueue.x-k8s.io/podset": "driver",
        "kueue.x-k8s.io/local-queue-name": "l",
        "kueue.x-k8s.io/cluster-queue-name": "q",
    }
    noted = '{"clusterQueue":"q","count":1,"flavors":{"cpu":"big"}}'
    annotations = {"kueue.x-k8s.io/workload": "w", "zonewise.dev/admission": noted}
    assert driver == PodSetInfo("driver", 1, labels, annotations, {"size": "big"}, [], ())
    assert (ranks.pods, ranks.node_selector, ranks.tolerations) == (3, {"size": "big", "gpu": "h100"}, [toleration])
    assert ranks.scheduling_gates == ("kueue.x-k8s.io/topology",)
    assert ranks.labels["kueue.x-k8s.io/tas"] == "true"


def test_only_updates_of_passed_checks_are_added() -> None:
    update = {"name": "main", "nodeSelector": {"pool": "p"}, "annotations": {"booked": "yes"}, "labels": {"x": "y"}}
    checks = [{"state": "Ready", "podSetUpdates": [update]}, {"state": "Pending", "podSetUpdates": [{"name": "main"}]}]
    (info,) = start_infos(workload({"name": "main", "flavors": {}}, checks=checks), {})
    assert (info.node_selector, info.annotations["booked"], info.labels["x"]) == ({"pool": "p"}, "yes", "y")


def test_a_flavor_may_be_missing() -> None:
    obj = workload({"name": "main", "flavors": {"cpu": "a", "gpu": "b"}})
    with pytest.raises(MissingFlavor, match="ResourceFlavor a does not exist"):
        start_infos(obj, {"b": flavor({})})


def test_a_flavor_that_contradicts_another_is_a_conflict() -> None:
    obj = workload({"name": "main", "flavors": {"cpu": "a", "gpu": "b"}})
    with pytest.raises(StartConflict, match="pool is 'y', and 'x' elsewhere"):
        start_infos(obj, {"a": flavor({"pool": "x"}), "b": flavor({"pool": "y"})})


def test_a_cluster_queue_whose_name_cannot_be_a_label_is_not_named() -> None:
    obj = workload({"name": "main", "flavors": {}})
    obj["status"]["admission"]["clusterQueue"] = "a.dotted.name"
    (info,) = start_infos(obj, {})
    assert info.labels == {"kueue.x-k8s.io/podset": "main", "kueue.x-k8s.io/local-queue-name": "l"}


@pytest.mark.parametrize(
    ("request_of_pod_set", "implicit"), [(None, True), ({"podIndexLabel": "i"}, True), ({"preferred": "rack"}, False)]
)
def test_a_placement_that_was_not_requested_is_marked(request_of_pod_set: Json | None, implicit: bool) -> None:
    obj = workload({"name": "main", "flavors": {}, "topologyAssignment": {"levels": []}})
    obj["spec"]["podSets"][0]["topologyRequest"] = request_of_pod_set
    (info,) = start_infos(obj, {})
    assert info.annotations.get("kueue.x-k8s.io/podset-unconstrained-topology") == ("true" if implicit else None)


def test_an_admission_of_a_removed_pod_set_is_a_conflict() -> None:
    obj = workload({"name": "main"})
    obj["spec"]["podSets"] = []
    with pytest.raises(StartConflict, match="pod set 'main'"):
        start_infos(obj, {})
