"""The additions of a start to the pods of an admitted workload (pkg/podset/podset.go FromAssignment, FromUpdate).

The labels of the assigned flavors become node selectors, and the tolerations of the flavors are added. The updates of
passed admission checks are added too. Labels name the queues. A pod set with a topology assignment gets a gate, so that
its pods can be ungated one by one, each to its node (pods/). A slice gets a gate that holds the pods beyond its size,
and the name of the first slice (workloads/slices.py). If it requested no placement, an annotation marks it as
unconstrained. Another annotation records the admission (workloads/noted_admission.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.jobs.interface import PodSetInfo, StartConflict
from zonewise_scheduler.controller.pods.pod_names import (
    ADMISSION_ANNOTATION,
    CLUSTER_QUEUE_LABEL,
    LOCAL_QUEUE_LABEL,
    POD_SET_LABEL,
    TAS_LABEL,
    TOPOLOGY_GATE,
    WORKLOAD_ANNOTATION,
)
from zonewise_scheduler.controller.workloads.admission_checks import pod_set_updates
from zonewise_scheduler.controller.workloads.noted_admission import note_admission
from zonewise_scheduler.controller.workloads.slices import first_slice_name, is_slice
from zonewise_scheduler.quota.api.job_pod_sets import UNCONSTRAINED_ANNOTATION
from zonewise_scheduler.quota.api.workload_slices import ELASTIC_GATE, SLICE_NAME_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import Json

_LEVELS = frozenset({"required", "preferred", "unconstrained"})
"""Fields of a topology request that request a placement."""
_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


class MissingFlavor(FieldError):
    """A ResourceFlavor was deleted after the admission. The start succeeds once the flavor exists again."""


def start_infos(workload: Json, flavors: Mapping[str, Json]) -> tuple[PodSetInfo, ...]:
    """Return the additions for each pod set of a Workload with quota; `flavors`: ResourceFlavors by name.

    Raises StartConflict if a pod set does not exist, or if two flavors or checks set different values for one label.
    Raises MissingFlavor if a flavor does not exist (pkg/controller/jobframework/reconciler.go startJob retries then).
    """
    admission: Json = workload["status"]["admission"]
    pod_sets: dict[str, Json] = {entry["name"]: entry for entry in workload["spec"]["podSets"]}
    assignments: list[Json] = admission.get("podSetAssignments") or []
    if unknown := [entry["name"] for entry in assignments if entry["name"] not in pod_sets]:
        raise StartConflict(f"the admission has pod set {unknown[0]!r:.80}, which spec.podSets lacks")
    return tuple(_start_info(workload, entry, pod_sets[entry["name"]], flavors) for entry in assignments)


def _start_info(workload: Json, assignment: Json, pod_set: Json, flavors: Mapping[str, Json]) -> PodSetInfo:
    name = assignment["name"]
    placed = assignment.get("topologyAssignment") is not None
    labels = {POD_SET_LABEL: name, **_queue_labels(workload)} | ({TAS_LABEL: "true"} if placed else {})
    count = assignment.get("count", pod_set.get("count", 1))
    cluster_queue = str(workload["status"]["admission"].get("clusterQueue") or "")
    annotations = {
        WORKLOAD_ANNOTATION: workload["metadata"]["name"],
        ADMISSION_ANNOTATION: note_admission(cluster_queue, assignment, count),
    }
    is_sliced = is_slice(workload)
    if is_sliced:
        annotations[SLICE_NAME_ANNOTATION] = first_slice_name(workload)
    if placed and not _LEVELS & (pod_set.get("topologyRequest") or {}).keys():
        annotations[UNCONSTRAINED_ANNOTATION] = "true"
    selector: dict[str, str] = {}
    tolerations: list[Json] = []
    assigned: dict[str, str] = assignment.get("flavors") or {}
    for flavor in dict.fromkeys(assigned.values()):
        if flavor not in flavors:
            raise MissingFlavor("status.admission.podSetAssignments", f"ResourceFlavor {flavor} does not exist")
        spec: Json = flavors[flavor].get("spec") or {}
        _merge(selector, spec.get("nodeLabels") or {}, f"nodeSelector of ResourceFlavor {flavor}")
        tolerations += spec.get("tolerations") or ()
    for update in pod_set_updates(workload, name):
        _merge(labels, update.get("labels") or {}, "labels of an admission check")
        _merge(annotations, update.get("annotations") or {}, "annotations of an admission check")
        _merge(selector, update.get("nodeSelector") or {}, "nodeSelector of an admission check")
        tolerations += update.get("tolerations") or ()
    gates = (*((ELASTIC_GATE,) if is_sliced else ()), *((TOPOLOGY_GATE,) if placed else ()))
    return PodSetInfo(name, count, labels, annotations, selector, tolerations, gates)


def _queue_labels(workload: Json) -> dict[str, str]:
    """Return labels with the names of the queues; that of the ClusterQueue only if it is a valid label value."""
    cluster_queue = str(workload["status"]["admission"].get("clusterQueue") or "")
    labels = {LOCAL_QUEUE_LABEL: str(workload["spec"].get("queueName") or "")}
    return labels | ({CLUSTER_QUEUE_LABEL: cluster_queue} if _DNS_LABEL.fullmatch(cluster_queue) else {})


def _merge(pairs: dict[str, str], more: Mapping[str, str], source: str) -> None:
    for key, value in more.items():
        if pairs.setdefault(key, value) != value:
            raise StartConflict(f"{source}: {key} is {value!r:.80}, and {pairs[key]!r:.80} elsewhere")
