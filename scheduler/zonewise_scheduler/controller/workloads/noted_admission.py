"""The admission that a start records on each pod, so that it is known even if the Workload and its job are deleted.

The annotation is JSON with the ClusterQueue, and with the flavors and number of pods of the pod set's assignment. Users
may write it too, so it contains no amounts: these are derived from the pods' requests.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.admission.resource_names import PODS
from zonewise_scheduler.controller.jobs.job_fields import parse_object
from zonewise_scheduler.quota.api.amount import amount_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import Json


class NotedAdmission(NamedTuple):
    """The admission of a pod set, without amounts and placement."""

    cluster_queue: str
    flavors: Mapping[str, str]
    """Flavors by resource."""
    pods: int


def note_admission(cluster_queue: str, assignment: Json, pods: int) -> str:
    """Return the annotation for the pods of a pod set; `assignment`: entry of status.admission.podSetAssignments."""
    flavors: Json = assignment.get("flavors") or {}
    noted = {"clusterQueue": cluster_queue, "count": pods, "flavors": flavors}
    return json.dumps(noted, separators=(",", ":"), sort_keys=True)


def read_noted_admission(text: str) -> NotedAdmission | None:
    """Return the admission in an annotation; None: it cannot be read."""
    problems: list[str] = []
    reader = FieldReader(parse_object(text), "", problems)
    noted = NotedAdmission(reader.text("clusterQueue"), reader.pairs("flavors"), reader.count("count") or 0)
    return None if problems or not noted.cluster_queue or not noted.flavors else noted


def pod_set_assignment(name: str, flavors: Mapping[str, str], pods: int, requests: Mapping[str, int]) -> Json:
    """Return an entry of podSetAssignments; `requests`: of all pods together, as amounts by resource."""
    amounts = {**requests, PODS: pods}
    usage = {resource: amount_text(resource, amounts.get(resource, 0)) for resource in flavors}
    return {"name": name, "flavors": dict(flavors), "count": pods, "resourceUsage": usage}
