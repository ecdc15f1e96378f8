"""Declared walltimes: the longest time that a job may run, in seconds; infinite if none is declared.

If there are several declarations, the smallest counts, since each is an upper bound.
- Workload: spec.maximumExecutionTimeSeconds, minus the time of earlier admissions (KEP-3125:
  status.accumulatedPastExecutionTimeSeconds). Kueue deactivates a Workload once no time is left.
- Job, Pod, RayJob, TrainJob: spec.activeDeadlineSeconds. Kubeflow's training jobs:
  spec.runPolicy.activeDeadlineSeconds.
- Every job under Kueue: the label of KEP-3125, kueue.x-k8s.io/max-exec-time-seconds.
- Every object: our annotation `zonewise.dev/max-run-seconds`. No controller enforces it. A job that exceeds it
  continues to run, and is expected to end soon.
- Jobs without a declaration: the annotation `zonewise.dev/default-run-seconds` of the LocalQueue, or else of the
  ClusterQueue.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.quota.api.submitted_by import read_submitter

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, LocalQueue
    from zonewise_scheduler.quota.api.workload_types import Workload

MAX_RUN_ANNOTATION = "zonewise.dev/max-run-seconds"
"""Annotation with seconds, or a duration such as 90m or 1d12h."""
DEFAULT_RUN_ANNOTATION = "zonewise.dev/default-run-seconds"
MAX_EXEC_TIME_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"
"""Kueue's pkg/controller/constants."""

_DEADLINE = "activeDeadlineSeconds"
_KINDS_WITH_RUN_POLICY = frozenset({"JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"})
_KINDS_WITH_DEADLINE = frozenset({"Job", "Pod", "RayJob", "TrainJob"})
_PAST_EXECUTION_TIME = ("accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
"""The correct spelling, and the misspelling in the API (apis/kueue/v1beta1/workload_types.go)."""
_MIN_WALLTIME = 1.0
"""Minimum walltime, in seconds, of a job whose time is used up; with 0, the job would end when it starts."""
_MAX_SECONDS = 2**53
_DURATION = re.compile(r"(?:(\d{1,16})d)?(?:(\d{1,16})h)?(?:(\d{1,16})m)?(?:(\d{1,16})s)?", re.ASCII)
_GENERATED_SUFFIX = re.compile(r"-(?:[bcdfghjklmnpqrstvwxz2456789]{5}|\d+)$")
"""The suffix that generateName (k8s.io/apimachinery util/rand), a CronJob or a counter adds to a name."""


def parse_walltime(text: str) -> float:
    """Return a walltime in seconds; raise ValueError if the text is not a walltime above zero."""
    match = _DURATION.fullmatch(f"{text}s" if text.isdecimal() else text)
    if match is None or not any(match.groups()):
        raise ValueError("neither seconds nor a duration such as 90m")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if not total:
        raise ValueError("not above zero")
    if total > _MAX_SECONDS:
        raise ValueError("too long")
    return float(total)


def read_walltime(obj: Mapping[str, Any]) -> tuple[float, tuple[str, ...]]:
    """Return the walltime of an object of any kind except a Workload, and the problems of its declarations."""
    problems: list[str] = []
    whole = FieldReader(obj, "", problems)
    walltime = read_run_walltime(whole, whole.text("kind"))
    return min(walltime, read_max_execution_time(whole.child("metadata"))), tuple(problems)


def read_run_walltime(whole: FieldReader, kind: str) -> float:
    """Return the smallest declaration that restarts with each run: the annotation, or the deadline of the kind."""
    spec = whole.child("spec")
    declared = _metadata_walltime(whole.child("metadata"), "annotations", MAX_RUN_ANNOTATION)
    if kind in _KINDS_WITH_DEADLINE:
        return min(declared, _seconds_field(spec, _DEADLINE))
    if kind in _KINDS_WITH_RUN_POLICY:
        return min(declared, _seconds_field(spec.child("runPolicy"), _DEADLINE))
    return declared


def read_max_execution_time(metadata: FieldReader) -> float:
    """Return Kueue's declaration, which covers the total time of all admissions."""
    return _metadata_walltime(metadata, "labels", MAX_EXEC_TIME_LABEL)


def workload_walltime(metadata: FieldReader, spec: FieldReader, status: FieldReader) -> float:
    """Return the remaining walltime of a Workload."""
    declared = _seconds_field(spec, "maximumExecutionTimeSeconds")
    past = max(status.count(name, 0) or 0 for name in _PAST_EXECUTION_TIME)
    remaining = max(declared - past, _MIN_WALLTIME)
    return min(remaining, _metadata_walltime(metadata, "annotations", MAX_RUN_ANNOTATION))


def read_default_walltime(obj: Mapping[str, Any], problems: list[str]) -> float:
    """Return the default walltime that a LocalQueue or ClusterQueue declares; report only its own problems."""
    metadata = FieldReader(obj, "", []).child("metadata")  # the reader of the queue reports the other problems
    return _metadata_walltime(FieldReader(metadata.obj, "metadata.", problems), "annotations", DEFAULT_RUN_ANNOTATION)


def with_default_walltime(
    workload: Workload, local_queue: LocalQueue | None, cluster_queue: ClusterQueue | None
) -> Workload:
    """Return a Workload with the default walltime of its queues if it declares none.

    A new default replaces an earlier one.
    """
    if isfinite(workload.walltime) and not workload.has_default_walltime:
        return workload
    defaults = (queue.default_walltime for queue in (local_queue, cluster_queue) if queue is not None)
    walltime = next(filter(isfinite, defaults), inf)
    if walltime == workload.walltime:
        return workload
    return replace(workload, walltime=walltime, has_default_walltime=isfinite(walltime))


def history_keys(metadata: FieldReader, queue_name: str) -> tuple[Hashable, ...]:
    """Return the groups of Workloads with similar run times, as history_groups() does.

    The job has the name of the owner, or else of the Workload.
    """
    quiet = FieldReader(metadata.obj, "metadata.", [])  # invalid owners are reported elsewhere
    owners = (owner.text("name") for owner in quiet.children("ownerReferences"))
    name = next(filter(None, owners), "") or quiet.text("generateName").rstrip("-") or quiet.text("name")
    return history_groups(quiet.text("namespace"), read_submitter(quiet), queue_name, name)


def history_groups(namespace: str, submitter: str, queue_name: str, job: str) -> tuple[Hashable, ...]:
    """Return the groups of similar run times to which a job belongs: namespace, user if known, LocalQueue, template.

    The group of the namespace contains jobs of unknown users too, such as those from before an upgrade. The blank
    distinguishes a user from a LocalQueue. The template is the name of the job without generated suffixes.
    """
    while (shorter := _GENERATED_SUFFIX.sub("", job)) not in {"", job}:
        job = shorter
    user = (f"user {submitter}",) if submitter else ()
    return namespace, *user, queue_name, job


def _metadata_walltime(metadata: FieldReader, field: str, name: str) -> float:
    """Return the walltime of an annotation or label; infinite if it is absent, or invalid and reported."""
    text = metadata.pairs(field).get(name)
    if text is None:
        return inf
    try:
        return parse_walltime(text)
    except ValueError as error:
        metadata.problems.append(f"{metadata.path}{field}.{name}: {error}: {text[:80]!r}")
        return inf


def _seconds_field(reader: FieldReader, name: str) -> float:
    """Return a field of whole seconds; infinite if it is absent, or invalid and reported."""
    seconds = reader.count(name)
    if seconds == 0:
        reader.report(name, "not above zero")
    return float(seconds) if seconds else inf
