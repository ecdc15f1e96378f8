"""Training jobs of kubeflow.org: v1 of the training operator, and MPIJobs v2beta1 of the MPI operator.

All of these kinds have replicas by role, the field `spec.runPolicy.suspend` and the same status. Their pod sets follow
the order of the roles here (pkg/controller/jobs/kubeflow/kubeflowjob/kubeflowjob_controller.go, kubeflow/jobs/*,
mpijob/mpijob_controller.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.resources import Resource
from zonewise_scheduler.controller.jobs.job_fields import condition_message, read_strictly
from zonewise_scheduler.controller.jobs.suspendable_job import JobTemplate, SuspendableJob
from zonewise_scheduler.quota.api.job_pod_sets import MAX_PODS, PodIndexes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.types import Json

REPLICA_INDEX_LABEL = "training.kubeflow.org/replica-index"
"""Label with a pod's index in its role (training-operator pkg/apis/kubeflow.org/v1/common_types.go
ReplicaIndexLabel)."""


class KubeflowJob(SuspendableJob):
    """The adapter of one kind. Each role that the job uses is a pod set."""

    suspend_path = ("spec", "runPolicy", "suspend")
    end_conditions = (("Succeeded", True), ("Failed", False))

    def __init__(self, resource: Resource, replicas_field: str, roles: Sequence[str]) -> None:
        """Adapt the kind `resource`; `replicas_field`: the field of the spec that contains the replicas by role."""
        super().__init__(resource)
        self._replicas_field = replicas_field
        self._roles = roles

    def templates(self, job: FieldReader) -> Iterator[JobTemplate]:
        """Yield the template of each role. The pod set is named after the role, in lower case."""
        replicas = job.child("spec").child(self._replicas_field)
        for role in self._roles:
            if not replicas.has(role):
                continue
            spec = replicas.child(role)
            yield JobTemplate(
                role.lower(),
                spec.int_in_range("replicas", 1, MAX_PODS, minimum=0),
                spec.child("template"),
                ("spec", self._replicas_field, role, "template"),
                PodIndexes(REPLICA_INDEX_LABEL),
            )

    def is_active(self, job: Json) -> bool:
        """Return whether any role has active pods."""

        def read(reader: FieldReader) -> bool:
            statuses = reader.child("status").child("replicaStatuses")
            return any(statuses.child(role).count("active", 0) for role in statuses.obj)

        return read_strictly(job, read)

    def pods_ready(self, job: Json) -> bool:
        """Return whether the condition Running is true."""
        return condition_message(job, "Running") is not None


_MASTER_AND_WORKER = ("Master", "Worker")


def _training_job(kind: str, replicas_field: str, roles: Sequence[str] = _MASTER_AND_WORKER) -> KubeflowJob:
    resource = Resource("kubeflow.org", "v1", f"{kind.lower()}s", kind, namespaced=True)
    return KubeflowJob(resource, replicas_field, roles)


PYTORCH_JOB = _training_job("PyTorchJob", "pytorchReplicaSpecs")
ADAPTERS: tuple[JobAdapter, ...] = (
    PYTORCH_JOB,
    _training_job("TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    _training_job("XGBoostJob", "xgbReplicaSpecs"),
    _training_job("PaddleJob", "paddleReplicaSpecs"),
    _training_job("JAXJob", "jaxReplicaSpecs", ("Worker",)),
    KubeflowJob(
        Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob", namespaced=True),
        "mpiReplicaSpecs",
        ("Launcher", "Worker"),
    ),
)
