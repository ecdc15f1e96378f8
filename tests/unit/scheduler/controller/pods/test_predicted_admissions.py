"""Which pod gets which predicted admission of its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.held_pods import assigned_workload, held_pod, managed, patched
from zonewise_scheduler.controller.pods.pod_context import PodContext
from zonewise_scheduler.controller.pods.pod_reconciler import PodReconciler

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Write

NODES = {"h1": "node-1", "h2": "node-2"}
WORKLOADS = {"ns/w": assigned_workload({"h1": 2, "h2": 1})}
PREDICTED = {("main", "node-1"): ("c cpus=0-1", "c cpus=2-3"), ("main", "node-2"): ("c cpus=0-1",)}
ANNOTATION = "zonewise.dev/predicted-admission"


def predictions(
    pods: dict[str, dict[str, object]], predicted: dict[tuple[str, str], tuple[str, ...]]
) -> dict[str, str]:
    """Return the annotation of each ungated pod, by the name of the pod."""
    reconciler = PodReconciler()
    for name, pod in pods.items():
        reconciler.observe("ns", name, managed(pod))
    writes = reconciler.writes(PodContext(WORKLOADS, NODES, {"ns/w": predicted}.__getitem__))
    return {
        write.key.name: patched(pods[write.key.name], write)["metadata"]["annotations"].get(ANNOTATION, "")
        for write in writes
    }


def test_pods_get_the_admissions_of_their_nodes_in_order() -> None:
    pods = {f"p{index}": held_pod(f"p{index}", index=index) for index in range(3)}
    assert predictions(pods, PREDICTED) == {"p0": "c cpus=0-1", "p1": "c cpus=2-3", "p2": "c cpus=0-1"}


def test_a_replacement_gets_an_admission_that_no_active_pod_of_its_node_has() -> None:
    pods = {f"p{index}": held_pod(f"p{index}", index=index) for index in range(3)}
    for name, node, text in (("p0", "node-1", "c cpus=0-1"), ("p2", "node-2", "c cpus=0-1")):
        pods[name]["spec"] |= {"schedulingGates": [], "nodeName": node}
        pods[name]["metadata"]["annotations"][ANNOTATION] = text
    assert predictions(pods, PREDICTED) == {"p1": "c cpus=2-3"}
    pods["p0"]["status"]["phase"] = "Failed"
    assert predictions(pods, PREDICTED)["p1"] == "c cpus=0-1"


def test_a_pod_that_is_being_ungated_keeps_its_admission() -> None:
    reconciler = PodReconciler()
    first, second = (held_pod(name, index=index) for index, name in enumerate("ab"))
    workload = assigned_workload({"h1": 2})
    workload["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]
    writes: list[Write] = []
    for pod in (first, second):
        reconciler.observe("ns", pod["metadata"]["name"], managed(pod))
        writes += reconciler.writes(PodContext({"ns/w": workload}, NODES, {"ns/w": PREDICTED}.__getitem__))
    annotations = [
        patched(pod, write)["metadata"]["annotations"][ANNOTATION]
        for pod, write in zip((first, second), writes, strict=True)
    ]
    assert annotations == ["c cpus=0-1", "c cpus=2-3"]


def test_no_annotation_is_written_without_a_prediction() -> None:
    pods = {f"p{index}": held_pod(f"p{index}", index=index) for index in range(3)}
    assert set(predictions(pods, {("main", "node-2"): ()}).values()) == {""}
