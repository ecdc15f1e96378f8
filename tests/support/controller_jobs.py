"""Jobs of the live queue, and the fields that a start adds to them, drawn with hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from zonewise_scheduler.controller.jobs.interface import PodSetInfo

Json = dict[str, Any]

CONTAINER: Json = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
KEYS = st.sampled_from(["a", "b", "example.com/c"])
PAIRS = st.dictionaries(KEYS, st.sampled_from(["1", "2"]), max_size=3)
ADDED_PAIRS = st.dictionaries(st.sampled_from(["x", "y", "example.com/z"]), st.sampled_from(["1", "2"]), max_size=3)
TOLERATIONS: st.SearchStrategy[list[Json]] = st.lists(
    st.fixed_dictionaries({"key": KEYS, "operator": st.just("Exists")}), max_size=2, unique_by=repr
)


@st.composite
def templates(draw: st.DrawFn) -> Json:
    """Draw pod templates with and without each field that a start changes."""
    metadata: Json = {}
    spec: Json = {"containers": [CONTAINER], "restartPolicy": "Never"}
    for owner, field, values in (
        (metadata, "labels", PAIRS),
        (metadata, "annotations", PAIRS),
        (spec, "nodeSelector", PAIRS),
        (spec, "tolerations", TOLERATIONS),
        (spec, "schedulingGates", st.lists(st.fixed_dictionaries({"name": KEYS}), max_size=1)),
    ):
        if draw(st.booleans()):
            owner[field] = draw(values)
    return {"metadata": metadata, "spec": spec} if metadata or draw(st.booleans()) else {"spec": spec}


@st.composite
def pod_set_infos(draw: st.DrawFn, pods: int = 1, name: str = "main") -> PodSetInfo:
    """Draw the fields that a start adds, without conflicts with `templates`."""
    labels, annotations, node_selector = draw(ADDED_PAIRS), draw(ADDED_PAIRS), draw(ADDED_PAIRS)
    gates = draw(st.lists(st.sampled_from(["kueue.x-k8s.io/topology", "a"]), unique=True, max_size=2))
    return PodSetInfo(name, pods, labels, annotations, node_selector, draw(TOLERATIONS), gates)


@st.composite
def batch_jobs(draw: st.DrawFn) -> Json:
    """Draw Jobs as created: held or not, with or without partial admission."""
    spec: Json = {"template": draw(templates()), "parallelism": draw(st.integers(1, 5))}
    annotations: Json = {}
    if draw(st.booleans()):
        spec["completions"] = draw(st.integers(1, 6))
    if draw(st.booleans()):
        pods = min(spec.get("parallelism", 1), spec.get("completions", 6))
        annotations["kueue.x-k8s.io/job-min-parallelism"] = str(draw(st.integers(1, max(1, pods))))
    metadata = {"name": "j", "namespace": "ns", "uid": "u-1", "annotations": annotations}
    labels = {"batch.kubernetes.io/controller-uid": "u-1", "batch.kubernetes.io/job-name": "j", "job-name": "j"}
    template = spec["template"]
    template["metadata"] = {**template.get("metadata", {})}
    template["metadata"]["labels"] = {**template["metadata"].get("labels", {}), **labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"suspend": True, **spec}}
