"""Declared run times: how long a job may take at most, in seconds; infinite where nobody said.

Of several, the smallest counts: each is an upper bound.
- Workload: spec.maximumExecutionTimeSeconds, less what the Workload was admitted for before (KEP-3125:
  status.accumulatedPastExecutionTimeSeconds; once nothing is left, Kueue deactivates it).
- Job, Pod, RayJob: spec.activeDeadlineSeconds. The training jobs of Kubeflow: spec.runPolicy.activeDeadlineSeconds.
- Whatever runs by Kueue: the label of KEP-3125, kueue.x-k8s.io/max-exec-time-seconds.
- Whatever there is: our annotation `zonewise.dev/max-run-seconds`. Nothing enforces it; a job that outlives it goes on,
  and is expected to end soon.
- Jobs that say nothing: the annotation `zonewise.dev/default-run-seconds` of the LocalQueue, else of the ClusterQueue.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import FieldReader

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, LocalQueue
    from zonewise_scheduler.quota.api.workload_types import Workload

MAX_RUN_ANNOTATION = "zonewise.dev/max-run-seconds"
"""An annotation: seconds, or a duration such as 90m or 1d12h."""
DEFAULT_RUN_ANNOTATION = "zonewise.dev/default-run-seconds"
MAX_EXEC_TIME_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"
"""A label (pkg/controller/constants in Kueue)."""

_DEADLINE = "activeDeadlineSeconds"
_OF_RUN_POLICY = frozenset({"JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"})
_WITH_DEADLINE = frozenset({"Job", "Pod", "RayJob"})
_PAST = ("accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
"""As it should be written, and as the API writes it (apis/kueue/v1beta1/workload_types.go)."""
_LEAST = 1.0
"""Seconds: a job whose time is used up may run for as long; zero would mean that it ends when it starts."""
_MOST = 2**53
_DURATION = re.compile(r"(?:(\d{1,16})d)?(?:(\d{1,16})h)?(?:(\d{1,16})m)?(?:(\d{1,16})s)?", re.ASCII)
_RANDOM = re.compile(r"-(?:[bcdfghjklmnpqrstvwxz2456789]{5}|\d+)$")
"""What generateName (k8s.io/apimachinery util/rand), a CronJob or a count adds to a name."""


def parse_walltime(text: str) -> float:
    """Return a run time; raise ValueError where it is none, or not above zero."""
    found = _DURATION.fullmatch(f"{text}s" if text.isdecimal() else text)
    if found is None or not any(found.groups()):
        raise ValueError("neither seconds nor a duration such as 90m")
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + rest
    if not 0 < total <= _MOST:
        raise ValueError("not above zero" if not total else "too long")
    return float(total)


def read_walltime(obj: Mapping[str, Any]) -> tuple[float, tuple[str, ...]]:
    """Return what an object of any kind but a Workload declares, and what is wrong with it."""
    problems: list[str] = []
    whole = FieldReader(obj, "", problems)
    kind, metadata, spec = whole.text("kind"), whole.child("metadata"), whole.child("spec")
    bounds = [_noted(metadata, "annotations", MAX_RUN_ANNOTATION), _noted(metadata, "labels", MAX_EXEC_TIME_LABEL)]
    if kind in _WITH_DEADLINE:
        bounds.append(_above_zero(spec, _DEADLINE))
    elif kind in _OF_RUN_POLICY:
        bounds.append(_above_zero(spec.child("runPolicy"), _DEADLINE))
    return min(bounds), tuple(problems)


def workload_walltime(metadata: FieldReader, spec: FieldReader, status: FieldReader) -> float:
    """Return what is left of what a Workload declares."""
    most = _above_zero(spec, "maximumExecutionTimeSeconds")
    past = max(status.count(name, 0) or 0 for name in _PAST)
    return min(max(most - past, _LEAST), _noted(metadata, "annotations", MAX_RUN_ANNOTATION))


def read_default_walltime(obj: Mapping[str, Any], problems: list[str]) -> float:
    """Return what a LocalQueue or ClusterQueue declares for jobs that do not."""
    metadata = FieldReader(obj, "", []).child(
        "metadata"
    )  # whoever reads the queue tells what is wrong with the rest of it
    return _noted(FieldReader(metadata.obj, "metadata.", problems), "annotations", DEFAULT_RUN_ANNOTATION)


def with_default_walltime(
    workload: Workload, local_queue: LocalQueue | None, cluster_queue: ClusterQueue | None
) -> Workload:
    """Return a Workload with the default of its queues, where it declares nothing and they do."""
    if workload.walltime < inf:
        return workload
    defaults = (queue.default_walltime for queue in (local_queue, cluster_queue) if queue is not None)
    limit = next((one for one in defaults if one < inf), inf)
    return workload if limit == inf else replace(workload, walltime=limit)


def history_keys(metadata: FieldReader, queue_name: str) -> tuple[Hashable, ...]:
    """Return whose run times those of a Workload are likely to resemble: namespace, LocalQueue, template.

    The template is the owner's name, or its own, without what was generated of it.
    """
    quiet = FieldReader(metadata.obj, "metadata.", [])  # owners that are invalid are told by others, and are none
    owners = (one.text("name") for one in quiet.children("ownerReferences"))
    name = next(filter(None, owners), "") or quiet.text("generateName").rstrip("-") or quiet.text("name")
    while (shorter := _RANDOM.sub("", name)) not in {"", name}:
        name = shorter
    return quiet.text("namespace"), queue_name, name


def _noted(metadata: FieldReader, where: str, name: str) -> float:
    """Return a run time from an annotation or label; a bad one is told, and is none."""
    text = metadata.pairs(where).get(name)
    if text is None:
        return inf
    try:
        return parse_walltime(text)
    except ValueError as error:
        metadata.problems.append(f"{metadata.path}{where}.{name}: {error}: {text[:80]!r}")
        return inf


def _above_zero(part: FieldReader, name: str) -> float:
    """Return a field of whole seconds; a bad one is told, and is none."""
    found = part.count(name)
    if found == 0:
        part.report(name, "not above zero")
    return float(found) if found else inf
