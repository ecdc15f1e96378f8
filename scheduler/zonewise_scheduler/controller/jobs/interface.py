"""The interface of adapters (pkg/controller/jobframework/interface.go GenericJob).

An adapter is pure: it reads an observed job and returns values. A stop takes several writes, a start up to two. Each is
derived from the observed job only, so a controller that is killed between two of them continues with the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.jobs.job_completion import PodLabels
    from zonewise_scheduler.controller.jobs.template_paths import FieldPath
    from zonewise_scheduler.controller.types import Json, ObjectKey
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest


class PodSetInfo(NamedTuple):
    """The additions of a start to the pods of one pod set (pkg/podset/podset.go PodSetInfo)."""

    name: str
    pods: int
    """Number of admitted pods; after a partial admission it is below the declared number."""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}
    tolerations: Sequence[Json] = ()
    scheduling_gates: Sequence[str] = ()


class StartConflict(Exception):
    """A start would overwrite a label, annotation or selector that the job itself sets. The message names it."""


class JobPatch(NamedTuple):
    """The next write of a start or stop: a JSON merge patch of the job, or of a subresource."""

    purpose: str
    body: Json
    subresource: str = ""


class FinishedJob(NamedTuple):
    """How a job ended."""

    succeeded: bool
    message: str


class JobAdapter(Protocol):
    """The adapter of one kind of job.

    Each method takes the job as decoded JSON, and raises FieldError for an invalid job.
    """

    @property
    def resource(self) -> Resource:
        """Return the kind, in the version that the adapter reads."""
        ...

    @property
    def suspend_path(self) -> FieldPath:
        """Return the path of the field that holds a job while it is true."""
        ...

    def is_suspended(self, job: Json) -> bool:
        """Return whether the job is held; False while a stop is incomplete."""
        ...

    def pod_sets(self, job: Json) -> tuple[PodSetManifest, ...]:
        """Return the pod sets of the job's current spec."""
        ...

    def before_start(self, job: Json) -> JobPatch | None:
        """Return the write without which the API server would reject a start; None: no such write is needed."""
        ...

    def start(self, job: Json, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Return the write that starts a suspended job without active pods. Raises StartConflict."""
        ...

    def next_stop(self, job: Json, original: Sequence[PodSetManifest]) -> JobPatch | None:
        """Return the next write of a stop; None: there is none now.

        An inactive job without a next write is stopped, and its templates are restored. While the job is active, the
        API server may not yet accept the next write.

        `original`: the pod sets as submitted, to which the templates are restored.
        """
        ...

    def is_active(self, job: Json) -> bool:
        """Return whether pods of the job still run or terminate."""
        ...

    def pods_ready(self, job: Json) -> bool:
        """Return whether all pods that the job needs at a time are ready or have succeeded."""
        ...

    def finished(self, job: Json) -> FinishedJob | None:
        """Return how the job ended; None: it has not ended."""
        ...

    def reclaimable_pods(self, job: Json) -> Mapping[str, int]:
        """Return by pod set the number of pods that the running job no longer needs."""
        ...

    def is_done(self, job: Json, succeeded: Iterable[PodLabels]) -> bool:
        """Return whether a job without active pods needs no more pods.

        `succeeded`: its succeeded pods, which may show this before the status does.
        """
        ...


class ParentAdapter(ABC):
    """The adapter of a kind whose operator creates another object from each job. That object determines the pods."""

    @abstractmethod
    def child_key(self, job: Json) -> ObjectKey:
        """Return the key of the object that the operator creates from a job."""

    @abstractmethod
    def with_child(self, child: Json) -> JobAdapter:
        """Return the adapter of the job from which `child` was created."""
