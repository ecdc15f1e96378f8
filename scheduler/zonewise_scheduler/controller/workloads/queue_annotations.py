"""Annotations that enable features of a LocalQueue or ClusterQueue. The LocalQueue's annotation takes precedence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.types import Json

BIND_ANNOTATION = "zonewise.dev/bind-pods"
"""Makes the controller bind the queue's pods if it can evaluate them completely."""


def queues_of(workload: Json, find: Callable[[Resource, str, str], Json | None]) -> list[Json]:
    """Return the LocalQueue and the ClusterQueue of an admitted Workload, if they exist.

    `find` returns an object by kind, namespace and name.
    """
    reader = FieldReader(workload, "", [])
    namespace, name = reader.child("metadata").text("namespace"), reader.child("spec").text("queueName")
    cluster_queue = reader.child("status").child("admission").text("clusterQueue")
    queues = find(LOCAL_QUEUES, namespace, name), find(CLUSTER_QUEUES, "", cluster_queue)
    return [queue for queue in queues if queue is not None]


def is_requested(queues: Sequence[Json], annotation: str) -> bool:
    """Return whether the first queue that carries an annotation sets it to "true"."""
    annotations = (FieldReader(queue, "", []).child("metadata").pairs("annotations") for queue in queues)
    return next((pairs[annotation] for pairs in annotations if annotation in pairs), "") == "true"


def binds_pods(workload: Json, find: Callable[[Resource, str, str], Json | None]) -> bool:
    """Return whether a queue of an admitted Workload makes the controller bind its pods; `find`: as in queues_of()."""
    return is_requested(queues_of(workload, find), BIND_ANNOTATION)
