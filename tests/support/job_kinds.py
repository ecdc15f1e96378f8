"""Held jobs of each kind with a suspend field, drawn with hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from support.controller_jobs import templates
from zonewise_scheduler.controller.jobs import kubeflow, raycluster, rayjob, rayservice
from zonewise_scheduler.controller.jobs.configured_job import ConfiguredJob
from zonewise_scheduler.controller.jobs.job_kind import parse_job_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.controller.jobs.interface import JobAdapter

Json = dict[str, Any]
METADATA = {"name": "j", "namespace": "ns", "uid": "u-1"}

TRAINING: Json = {
    "group": "example.com",
    "version": "v1",
    "kind": "Training",
    "plural": "trainings",
    "suspend": "/spec/run/suspend",
    "podSets": [
        {"name": "driver", "template": "/spec/driver"},
        {
            "name": "/spec/workers/*/name",
            "template": "/spec/workers/*/template",
            "count": "/spec/workers/*/replicas",
            "podIndexLabel": "example.com/index",
        },
        {"name": "watchers", "template": "/spec/a~1b~0/template", "count": 2},
    ],
    "activePods": ["/status/driver", "/status/workers/*/active"],
    "conditions": {"ready": "Running", "succeeded": "Complete", "failed": "Failed"},
}
"""A kind as defined in the settings."""
CONFIGURED: JobAdapter = ConfiguredJob(parse_job_kinds([TRAINING])[0])


def kubeflow_adapter(kind: str) -> JobAdapter:
    """Return the adapter of a kubeflow.org kind."""
    return next(adapter for adapter in kubeflow.ADAPTERS if adapter.resource.kind == kind)


def ray_cluster_spec(head: Json, *groups: Json) -> Json:
    """Return the spec of a RayCluster."""
    return {"headGroupSpec": {"template": head}, "workerGroupSpecs": list(groups)}


def worker_group(name: str, template: Json | None = None, **fields: object) -> Json:
    """Return a worker group of a RayCluster."""
    return {"groupName": name, "template": template or {"spec": {}}, **fields}


@st.composite
def ray_clusters(draw: st.DrawFn) -> Json:
    """Draw specs of RayClusters with up to three worker groups."""
    names = draw(st.lists(st.sampled_from(["small", "Large", "gpu"]), unique=True))
    groups = [worker_group(name, draw(templates()), replicas=draw(st.integers(0, 3))) for name in names]
    return ray_cluster_spec(draw(templates()), *groups)


@st.composite
def ray_jobs(draw: st.DrawFn) -> Json:
    """Draw RayJobs with each submission mode, with and without a template for the submitter."""
    spec: Json = {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": draw(ray_clusters())}
    mode = draw(st.sampled_from([None, "K8sJobMode", "HTTPMode", "SidecarMode"]))
    if mode is not None:
        spec["submissionMode"] = mode
    if draw(st.booleans()):
        spec["submitterPodTemplate"] = draw(templates())
    return {"metadata": METADATA, "spec": spec}


@st.composite
def kubeflow_jobs(draw: st.DrawFn, replicas_field: str, roles: tuple[str, ...]) -> Json:
    """Draw jobs of a kubeflow.org kind with some of the kind's roles."""
    chosen = draw(st.lists(st.sampled_from(roles), unique=True, min_size=1))
    replicas = {role: {"replicas": draw(st.integers(1, 3)), "template": draw(templates())} for role in chosen}
    return {"metadata": METADATA, "spec": {"runPolicy": {"suspend": True}, replicas_field: replicas}}


@st.composite
def trainings(draw: st.DrawFn) -> Json:
    """Draw jobs of the kind TRAINING with some of its templates."""
    spec: Json = {"run": {"suspend": True}, "driver": draw(templates())}
    names = draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True))
    spec["workers"] = [{"name": name, "template": draw(templates()), "replicas": 2} for name in names]
    if draw(st.booleans()):
        spec["a/b~"] = {"template": draw(templates())}
    return {"metadata": METADATA, "spec": spec}


def _ray_cluster_object(spec: Json) -> Json:
    return {"metadata": METADATA, "spec": {"suspend": True, **spec}}


def _ray_service(spec: Json) -> Json:
    return {"metadata": METADATA, "spec": {"rayClusterConfig": {"suspend": True, **spec}}}


KINDS: dict[str, tuple[JobAdapter, Callable[[], st.SearchStrategy[Json]]]] = {
    "RayCluster": (raycluster.ADAPTER, lambda: ray_clusters().map(_ray_cluster_object)),
    "RayJob": (rayjob.ADAPTER, ray_jobs),
    "RayService": (rayservice.ADAPTER, lambda: ray_clusters().map(_ray_service)),
    "Training": (CONFIGURED, trainings),
    "PyTorchJob": (
        kubeflow_adapter("PyTorchJob"),
        lambda: kubeflow_jobs("pytorchReplicaSpecs", ("Master", "Worker")),
    ),
    "TFJob": (
        kubeflow_adapter("TFJob"),
        lambda: kubeflow_jobs("tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    ),
    "XGBoostJob": (kubeflow_adapter("XGBoostJob"), lambda: kubeflow_jobs("xgbReplicaSpecs", ("Master", "Worker"))),
    "PaddleJob": (kubeflow_adapter("PaddleJob"), lambda: kubeflow_jobs("paddleReplicaSpecs", ("Master", "Worker"))),
    "JAXJob": (kubeflow_adapter("JAXJob"), lambda: kubeflow_jobs("jaxReplicaSpecs", ("Worker",))),
    "MPIJob": (kubeflow_adapter("MPIJob"), lambda: kubeflow_jobs("mpiReplicaSpecs", ("Launcher", "Worker"))),
}
"""By kind: its adapter, and a strategy for its held jobs."""
