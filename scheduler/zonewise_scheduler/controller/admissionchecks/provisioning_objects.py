"""The observed ProvisioningRequests and PodTemplates, by namespace, name and owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.controller.admissionchecks.provisioning_request import POD_TEMPLATES, PROVISIONING_REQUESTS
from zonewise_scheduler.controller.cluster_cache import owner_uid
from zonewise_scheduler.controller.types import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import Json


class ProvisioningObjects:
    """Finds the objects of a Workload, and the Workload of an object."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, Json] = {}
        self._workloads: dict[ObjectKey, str] = {}
        """Key of the Workload for which each object was created, if known."""
        self._requests: dict[str, dict[str, Json]] = {}
        """Requests by UID of the owner, and by name."""
        self._templates: dict[str, dict[str, Json]] = {}
        """PodTemplates by namespace and name."""

    def set(self, key: ObjectKey, obj: Json | None) -> str:
        """Replace an object; None: it was deleted. Return the key of the Workload for which it exists; "": unknown."""
        old, workload = self._objects.pop(key, None), self._workloads.pop(key, "")
        if key.resource == POD_TEMPLATES:
            _set(self._templates, key.namespace, key.name, obj)
        elif old is not None:
            _set(self._requests, owner_uid(old), key.name, None)
        if obj is None:
            return workload
        if key.resource == PROVISIONING_REQUESTS:
            _set(self._requests, owner_uid(obj), key.name, obj)
        self._objects[key] = obj
        workload = self._find_workload(key, obj) or workload
        if workload:
            self._workloads[key] = workload
        return workload

    def knows(self, key: ObjectKey) -> bool:
        """Return whether an object exists."""
        return key in self._objects

    def workload_of(self, key: ObjectKey) -> str:
        """Return the key of the Workload for which an object exists; "": unknown."""
        return self._workloads.get(key, "")

    def requests_of(self, workload_uid: str) -> Mapping[str, Json]:
        """Return the requests of a Workload, by name."""
        return self._requests.get(workload_uid, {})

    def pod_templates(self, namespace: str) -> Mapping[str, Json]:
        """Return the PodTemplates of a namespace, by name."""
        return self._templates.get(namespace, {})

    def _find_workload(self, key: ObjectKey, obj: Json) -> str:
        """Return the key of the Workload that owns an object, or the request of a template."""
        kind, name = _owner(obj)
        if kind == PROVISIONING_REQUESTS.kind:
            return self._workloads.get(ObjectKey(PROVISIONING_REQUESTS, key.namespace, name), "")
        return f"{key.namespace}/{name}" if kind == WORKLOADS.kind else ""


def _set(objects: dict[str, dict[str, Json]], group: str, name: str, obj: Json | None) -> None:
    members = objects.setdefault(group, {})
    if obj is None:
        members.pop(name, None)
    else:
        members[name] = obj
    if not members:
        del objects[group]


def _owner(obj: Json) -> tuple[str, str]:
    """Return the kind and name of the controller that owns an object."""
    references: list[Json] = obj["metadata"].get("ownerReferences") or []
    return next(((str(item.get("kind")), str(item.get("name"))) for item in references if item.get("controller")),
                ("", ""))  # fmt: skip
