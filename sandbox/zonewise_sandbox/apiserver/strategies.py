"""The rules for individual built-in kinds: defaults, creation, and the fields that an update must not change."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver import job_status, job_strategy, pod_strategy, webhook_configurations
from zonewise_sandbox.apiserver.json_values import is_list, is_object, list_in, object_in
from zonewise_sandbox.apiserver.kinds import DEFINITION, JOB, NAMESPACE, NODE, POD, SECRET, SERVICE
from zonewise_sandbox.apiserver.patches.merge_rules import is_map
from zonewise_sandbox.apiserver.status_errors import Cause, forbidden_field, invalid

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object, Value
    from zonewise_sandbox.apiserver.kinds import Kind


NOT_READY: Object = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
"""The taint of new nodes, set by the admission plugin TaintNodesByCondition."""

_SERVICE_DEFAULTS: Object = {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}


def set_defaults(kind: Kind, obj: Object) -> Object:
    """Return an object of a built-in kind with its defaults, and without empty fields."""
    obj = _tidied(obj)
    if kind.resource == POD.resource:
        return pod_strategy.set_defaults(obj)
    if kind.resource == JOB.resource:
        return job_strategy.set_defaults(obj)
    if kind.resource == SERVICE.resource:
        return _defaulted_service(obj)
    if kind.resource == SECRET.resource:
        return _defaulted_secret(obj)
    if kind.resource == DEFINITION.resource:
        return _defaulted_definition(obj)
    return webhook_configurations.set_defaults(obj) if webhook_configurations.is_configuration(kind) else obj


def unknown_fields(kind: Kind, obj: Object) -> list[str]:
    """Return the paths of fields that a built-in kind lacks, as far as its fields are known here."""
    return job_strategy.unknown_fields(obj) if kind.resource == JOB.resource else []


def default_propagation(kind: Kind) -> str:
    """Return the kind's default propagationPolicy; a deletion of a batch/v1 Job orphans its pods."""
    return "Orphan" if kind.resource == JOB.resource else "Background"


def prepare_for_create(kind: Kind, obj: Object, now: str) -> Object:
    """Return a new object of a built-in kind after admission and its registry. Raises StatusError (422)."""
    if kind.resource == POD.resource:
        if causes := list(pod_strategy.validate_pod(obj)):
            raise invalid(kind, obj["metadata"]["name"], causes)
        return pod_strategy.prepare_for_create(obj, now)
    if kind.resource == JOB.resource:
        job = job_strategy.prepare_for_create(obj)
        if causes := list(job_strategy.validate_job(job)):
            raise invalid(kind, obj["metadata"]["name"], causes)
        return job
    if kind.resource == NODE.resource:
        return _created_node(obj)
    if kind.resource == NAMESPACE.resource:
        metadata = obj["metadata"]
        labels = {**object_in(metadata, "labels"), "kubernetes.io/metadata.name": metadata["name"]}
        obj = {**obj, "metadata": {**metadata, "labels": labels}, "spec": {"finalizers": ["kubernetes"]}}
        return {**obj, "status": {"phase": "Active"}}
    if kind.resource == SERVICE.resource:
        return {**obj, "status": {"loadBalancer": {}}}
    return {name: value for name, value in obj.items() if name != "status"} if kind.status else obj


def validate_update(kind: Kind, old: Object, new: Object, subresource: str = "") -> None:
    """Raise StatusError (422) if an update of an object or its status breaks a rule of its kind."""
    causes: list[Cause] = []
    if subresource:
        causes = list(job_status.validate_status_update(old, new)) if kind.resource == JOB.resource else []
    elif kind.resource == POD.resource:
        causes = list(pod_strategy.validate_pod_update(old, new))
    elif kind.resource == JOB.resource:
        causes = list(job_strategy.validate_job_update(old, new))
    elif kind.plural in {"configmaps", "secrets"} and old.get("immutable"):
        changed = old.get("data") != new.get("data") or not new.get("immutable")
        causes = [forbidden_field("data", "field is immutable when `immutable` is set")] if changed else []
    if causes:
        raise invalid(kind, new["metadata"]["name"], causes)


def _tidied(value: Value) -> Value:
    """Return a value without nulls, empty lists and empty maps: to Go's types, these are the same as absent ones."""
    if is_object(value):
        return {
            name: _tidied(part)
            for name, part in value.items()
            if part is not None and part != [] and not (part == {} and is_map(name))
        }
    return [_tidied(item) for item in value] if is_list(value) else value


def _created_node(obj: Object) -> Object:
    spec, status = dict(object_in(obj, "spec")), dict(object_in(obj, "status"))
    taints = list(list_in(spec, "taints"))
    if not any(taint.get("key") == NOT_READY["key"] for taint in taints):
        taints.append(NOT_READY)
    if "capacity" in status:
        status = {"allocatable": status["capacity"], **status}
    return {**obj, "spec": {**spec, "taints": taints}, "status": status}


def _defaulted_service(obj: Object) -> Object:
    spec = {**_SERVICE_DEFAULTS, **object_in(obj, "spec")}
    ports = [{"protocol": "TCP", "targetPort": port.get("port"), **port} for port in list_in(spec, "ports")]
    return {**obj, "spec": {**spec, "ports": ports} if ports else spec}


def _defaulted_secret(obj: Object) -> Object:
    complete: Object = {"type": "Opaque", **obj}
    texts = complete.pop("stringData", None)
    if texts:
        coded = {name: base64.b64encode(str(text).encode()).decode() for name, text in texts.items()}
        complete["data"] = {**object_in(complete, "data"), **coded}
    return complete


def _defaulted_definition(obj: Object) -> Object:
    spec = dict(object_in(obj, "spec"))
    names = dict(object_in(spec, "names"))
    kind = str(names.get("kind", ""))
    spec["names"] = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
    return {**obj, "spec": {"conversion": {"strategy": "None"}, **spec}}
