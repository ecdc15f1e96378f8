"""The interface of adapters (pkg/controller/jobframework/interface.go GenericJob).

An adapter is pure: it reads an observed job, and returns values. A stop takes several writes, a start up to two.
Each is derived from the observed job alone, so a controller that is killed between two of them goes on with the next.
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
    """What a start adds to the pods of one pod set (pkg/podset/podset.go PodSetInfo)."""

    name: str
    pods: int
    """Pods that are admitted: fewer than declared after a partial admission."""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}
    tolerations: Sequence[Json] = ()
    scheduling_gates: Sequence[str] = ()


class StartConflict(Exception):
    """A start would change a label, annotation or selector that the job itself sets. The message names it."""


class JobPatch(NamedTuple):
    """The next write of a start or stop: a JSON merge patch of the job, or of a subresource."""

    purpose: str
    body: Json
    subresource: str = ""


class FinishedJob(NamedTuple):
    """The end of a job."""

    succeeded: bool
    message: str


class JobAdapter(Protocol):
    """One kind of job. Each method takes the job as decoded JSON, and raises FieldError for an invalid one."""

    @property
    def resource(self) -> Resource:
        """The kind, in the version that the adapter reads."""
        ...

    @property
    def suspend_path(self) -> FieldPath:
        """The field that holds a job where it is true."""
        ...

    def is_suspended(self, job: Json) -> bool:
        """Tell whether the job is held; false while a stop is half done."""
        ...

    def pod_sets(self, job: Json) -> tuple[PodSetManifest, ...]:
        """Return the pods of the job, as its spec has them now."""
        ...

    def before_start(self, job: Json) -> JobPatch | None:
        """Return the write without which the API server rejects the start of a suspended job; None: there is none."""
        ...

    def start(self, job: Json, infos: Sequence[PodSetInfo]) -> JobPatch:
        """Return the one write that starts a suspended job that is not active. Raises StartConflict."""
        ...

    def next_stop(self, job: Json, original: Sequence[PodSetManifest]) -> JobPatch | None:
        """Return the next write of a stop; None: there is none now.

        A job without a next write that is not active is stopped, and its templates are restored. Before it is inactive,
        the API server may not accept the next write yet.

        `original`: the pod sets as submitted, to which the templates are restored.
        """
        ...

    def is_active(self, job: Json) -> bool:
        """Tell whether pods of the job still run or terminate."""
        ...

    def pods_ready(self, job: Json) -> bool:
        """Tell whether all pods that the job needs at a time are ready, or have succeeded."""
        ...

    def finished(self, job: Json) -> FinishedJob | None:
        """Return the end of the job; None: it has not ended."""
        ...

    def reclaimable_pods(self, job: Json) -> Mapping[str, int]:
        """Return by pod set the pods that are not needed any more while the job runs."""
        ...

    def is_done(self, job: Json, succeeded: Iterable[PodLabels]) -> bool:
        """Tell whether a job of which no pod is active needs no more pods.

        `succeeded`: its pods that have, which may show it before the status does.
        """
        ...


class ParentAdapter(ABC):
    """Of a kind whose operator makes another object of each job, from which the pods follow."""

    @abstractmethod
    def child_key(self, job: Json) -> ObjectKey:
        """Return the key of the object that is made of a job."""

    @abstractmethod
    def with_child(self, child: Json) -> JobAdapter:
        """Return the adapter of the job of which `child` was made."""
