"""The rules of single built-in kinds: defaults, creation, and the fields that an update must not change."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver import pod_strategy
from zonewise_sandbox.apiserver.json_values import is_list, is_object, list_in, object_in
from zonewise_sandbox.apiserver.kinds import DEFINITION, JOB, NAMESPACE, NODE, POD, SECRET, SERVICE
from zonewise_sandbox.apiserver.merge_rules import is_map
from zonewise_sandbox.apiserver.status_errors import Cause, forbidden_field, invalid, invalid_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_sandbox.apiserver.json_values import Object, Value
    from zonewise_sandbox.apiserver.kinds import Kind


NOT_READY: Object = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
"""The taint of new nodes, set by the admission plugin TaintNodesByCondition."""

_JOB_DEFAULTS: Object = {
    "completions": 1,
    "parallelism": 1,
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "suspend": False,
    "manualSelector": False,
    "podReplacementPolicy": "TerminatingOrFailed",
}
_SERVICE_DEFAULTS: Object = {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}


def set_defaults(kind: Kind, obj: Object) -> Object:
    """Return an object of a built-in kind with its defaults, and without empty fields."""
    obj = _tidied(obj)
    if kind.resource == POD.resource:
        return pod_strategy.set_defaults(obj)
    if kind.resource == JOB.resource:
        return _defaulted_job(obj)
    if kind.resource == SERVICE.resource:
        return _defaulted_service(obj)
    if kind.resource == SECRET.resource:
        return _defaulted_secret(obj)
    if kind.resource == DEFINITION.resource:
        return _defaulted_definition(obj)
    return obj


def prepare_for_create(kind: Kind, obj: Object, now: str) -> Object:
    """Return a new object of a built-in kind after admission and its registry. Raises StatusError (422)."""
    if kind.resource == POD.resource:
        if causes := list(pod_strategy.validate_pod(obj)):
            raise invalid(kind, obj["metadata"]["name"], causes)
        return pod_strategy.prepare_for_create(obj, now)
    if kind.resource == JOB.resource:
        return _created_job(obj)
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


def validate_update(kind: Kind, old: Object, new: Object) -> None:
    """Raise StatusError (422) where an update changes an immutable field."""
    causes: list[Cause] = []
    if kind.resource == POD.resource:
        causes = list(pod_strategy.validate_pod_update(old, new))
    elif kind.resource == JOB.resource:
        causes = list(_validate_job_update(old, new))
    elif kind.plural in {"configmaps", "secrets"} and old.get("immutable"):
        changed = old.get("data") != new.get("data") or not new.get("immutable")
        causes = [forbidden_field("data", "field is immutable when `immutable` is set")] if changed else []
    if causes:
        raise invalid(kind, new["metadata"]["name"], causes)


def _tidied(value: Value) -> Value:
    """Return a value without nulls, empty lists and empty maps: Go's types do not distinguish them from absent ones."""
    if is_object(value):
        return {
            name: _tidied(part)
            for name, part in value.items()
            if part is not None and part != [] and not (part == {} and is_map(name))
        }
    return [_tidied(item) for item in value] if is_list(value) else value


def _defaulted_job(obj: Object) -> Object:
    declared = object_in(obj, "spec")
    spec = {**_JOB_DEFAULTS, **declared}
    if declared.get("completionMode") != "Indexed" and "completions" not in declared and "parallelism" in declared:
        del spec["completions"]  # a work queue: any one success completes it
    template = object_in(spec, "template")
    spec["template"] = {**template, "spec": pod_strategy.set_pod_spec_defaults(object_in(template, "spec"))}
    return {**obj, "spec": spec}


def _created_job(obj: Object) -> Object:
    """Label the job and its template with its UID, and select by that (pkg/registry/batch/job/strategy.go)."""
    own, spec = obj["metadata"], obj["spec"]
    uid, name = own["uid"], own["name"]
    job_labels: Object = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
    job_labels |= {"controller-uid": uid, "job-name": name}
    template = spec["template"]
    metadata = object_in(template, "metadata")
    labels = {**object_in(metadata, "labels"), **job_labels}
    template = {**template, "metadata": {**metadata, "labels": labels}}
    spec = {**spec, "template": template}
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    return {**obj, "metadata": {"labels": labels, **own}, "spec": spec, "status": {}}


def _validate_job_update(old: Object, new: Object) -> Iterator[Cause]:
    """Yield the immutable fields that differ. A suspended job's node selection is mutable (KEP-2926)."""
    before, after = old["spec"], new["spec"]
    for field in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"):
        if before.get(field) != after.get(field):
            yield invalid_value(f"spec.{field}", after.get(field), "field is immutable")
    suspended = bool(before.get("suspend")) and not object_in(old, "status").get("startTime")
    if _fixed_template(before["template"], free=suspended) != _fixed_template(after["template"], free=suspended):
        yield invalid_value("spec.template", after["template"], "field is immutable")


def _fixed_template(template: Object, *, free: bool) -> Object:
    if not free:
        return template
    placing = {"nodeSelector", "tolerations", "schedulingGates", "affinity"}
    spec = {name: value for name, value in template["spec"].items() if name not in placing}
    metadata = {
        name: value
        for name, value in object_in(template, "metadata").items()
        if name not in {"labels", "annotations"} and value is not None
    }
    return {**template, "spec": spec, "metadata": metadata}


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
