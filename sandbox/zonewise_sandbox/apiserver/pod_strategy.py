"""The rules for pods: defaults, updates, scheduling gates, binding, graceful deletion.

Sources: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go (ValidatePodUpdate),
pkg/registry/core/pod/strategy.go and storage/storage.go (assignPod).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.json_values import is_list, is_object, list_in, object_in
from zonewise_sandbox.apiserver.kinds import POD
from zonewise_sandbox.apiserver.status_errors import Cause, conflict, forbidden_field, internal, invalid_value, required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_sandbox.apiserver.json_values import Object


DEFAULT_GRACE = 30
"""Default of terminationGracePeriodSeconds."""

_POD_DEFAULTS: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": DEFAULT_GRACE,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}
_ADMITTED: Object = {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
_CONTAINER_DEFAULTS: Object = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_EVICTED_AFTER = 300  # seconds: the admission plugin DefaultTolerationSeconds
_MUTABLE_FIELDS = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def set_pod_spec_defaults(spec: Object) -> Object:
    """Return the spec of a pod or a template with its defaults."""
    complete = {**_POD_DEFAULTS, **spec}
    for field in ("containers", "initContainers"):
        if is_list(complete.get(field)):
            complete[field] = [_container(item) if is_object(item) else item for item in complete[field]]
    return complete


def set_defaults(pod: Object) -> Object:
    """Return a pod with its defaults."""
    return {**pod, "spec": set_pod_spec_defaults(object_in(pod, "spec"))}


def prepare_for_create(pod: Object, now: str) -> Object:
    """Return a new pod after admission and the registry: pending, and tolerating short outages of its node."""
    spec: Object = {**_ADMITTED, **pod["spec"]}
    if "tolerations" not in spec:
        spec["tolerations"] = [_toleration("not-ready"), _toleration("unreachable")]
    status: Object = {"phase": "Pending", "qosClass": _qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [_gated_condition()]
    elif spec.get("nodeName"):
        status["conditions"] = [_scheduled_condition(now)]
    return {**pod, "spec": spec, "status": status}


def validate_pod(pod: Object) -> Iterator[Cause]:
    """Yield errors for the invalid fields of a new pod."""
    yield from validate_containers(pod["spec"], "spec")
    if pod["spec"].get("schedulingGates") and pod["spec"].get("nodeName"):
        yield forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def validate_containers(spec: Object, path: str) -> Iterator[Cause]:
    """Yield errors for missing parts of the containers in the spec of a pod or a template."""
    containers = spec.get("containers")
    if not containers:
        yield required(f"{path}.containers")
    for number, container in enumerate(containers or ()):
        for field in ("name", "image"):
            if not container.get(field):
                yield required(f"{path}.containers[{number}].{field}")


def validate_pod_update(old: Object, new: Object) -> Iterator[Cause]:
    """Yield errors for fields that an update must not change."""
    before, after = old["spec"], new["spec"]
    known = {gate["name"] for gate in list_in(before, "schedulingGates")}
    for number, gate in enumerate(list_in(after, "schedulingGates")):
        if gate["name"] not in known:
            message = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            yield forbidden_field(f"spec.schedulingGates[{number}].name", message)
            return
    if known:
        yield from _validate_narrowing(before, after)
    if _fixed(before, gated=bool(known)) != _fixed(after, gated=bool(known)) or _lost_tolerations(before, after):
        yield forbidden_field("spec", _MUTABLE_FIELDS)


def bind_pod(pod: Object, binding: Object, now: str) -> Object:
    """Return the pod bound to the node of a Binding. Raises StatusError if it cannot be bound."""
    target = object_in(binding, "target")
    name = pod["metadata"]["name"]
    if not target.get("name"):
        raise internal("target.name: Required value")
    if target.get("kind") not in {None, "", "Node"}:
        raise internal(f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"')
    uid = object_in(binding, "metadata").get("uid")
    if uid and uid != pod["metadata"]["uid"]:
        actual_uid = pod["metadata"]["uid"]
        detail = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual_uid}"
        raise conflict(POD, name, detail, "binding")
    if "deletionTimestamp" in pod["metadata"]:
        raise conflict(POD, name, f"pod {name} is being deleted, cannot be assigned to a host", "binding")
    if pod["spec"].get("nodeName"):
        node = pod["spec"]["nodeName"]
        raise conflict(POD, name, f'pod {name} is already assigned to node "{node}"', "binding")
    if pod["spec"].get("schedulingGates"):
        raise conflict(POD, name, f"pod {name} has non-empty .spec.schedulingGates", "binding")
    status = object_in(pod, "status")
    conditions = [condition for condition in list_in(status, "conditions") if condition.get("type") != "PodScheduled"]
    status = {**status, "conditions": [*conditions, _scheduled_condition(now)]}
    metadata: Object = {**pod["metadata"]}
    for field in ("annotations", "labels"):
        if additions := object_in(object_in(binding, "metadata"), field):
            metadata[field] = {**object_in(metadata, field), **additions}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": target["name"]}, "status": status}


def disrupted_pod(pod: Object, now: str) -> Object:
    """Return the pod with the condition of an eviction (pkg/registry/core/pod/storage/eviction.go)."""
    status = object_in(pod, "status")
    others = [condition for condition in list_in(status, "conditions") if condition.get("type") != "DisruptionTarget"]
    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                  "message": "Eviction API: evicting", "lastTransitionTime": now}  # fmt: skip
    return {**pod, "status": {**status, "conditions": [*others, disruption]}}


def grace_period_seconds(pod: Object, requested: int | None) -> int:
    """Return the seconds for which a deleted pod remains: its kubelet must stop it first."""
    if not pod["spec"].get("nodeName") or object_in(pod, "status").get("phase") in {"Succeeded", "Failed"}:
        return 0
    default = pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)
    return max(default if requested is None else requested, 0)


def _container(container: Object) -> Object:
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    pull = "Always" if tag in {"", "latest"} and "@" not in image else "IfNotPresent"
    complete: Object = {**_CONTAINER_DEFAULTS, "imagePullPolicy": pull, **container}
    resources: Object = complete["resources"] or {}
    if resources.get("limits"):
        complete["resources"] = {**resources, "requests": {**resources["limits"], **object_in(resources, "requests")}}
    if complete.get("ports"):
        complete["ports"] = [{"protocol": "TCP", **port} for port in complete["ports"]]
    return complete


def _toleration(condition: str) -> Object:
    key = f"node.kubernetes.io/{condition}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTED_AFTER}


def _gated_condition() -> Object:
    message = "Scheduling is blocked due to non-empty scheduling gates"
    return {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message}


def _scheduled_condition(now: str) -> Object:
    return {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}


def _qos_class(spec: Object) -> str:
    """Return the QoS class (pkg/apis/core/v1/helper/qos/qos.go), which depends only on CPU and memory."""
    all_resources = [
        object_in(container, "resources")
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ()))
    ]
    counted = ("cpu", "memory")
    declared = [
        (kind, name)
        for resources in all_resources
        for kind in ("requests", "limits")
        for name in counted
        if name in object_in(resources, kind)
    ]
    if not declared:
        return "BestEffort"
    guaranteed = all(
        name in object_in(resources, "limits")
        and object_in(resources, "requests").get(name) == resources["limits"][name]
        for resources in all_resources
        for name in counted
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _fixed(spec: Object, *, gated: bool) -> Object:
    """Return the immutable part of a spec. While the pod has scheduling gates, its node selection is mutable."""
    mutable = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if gated:
        mutable.add("nodeSelector")
        affinity = {name: value for name, value in object_in(spec, "affinity").items() if name != "nodeAffinity"}
        spec = {**spec, "affinity": affinity}
    fixed = {name: value for name, value in spec.items() if name not in mutable and value not in (None, [], {})}
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [{**container, "image": ""} for container in fixed[field]]
    return fixed


def _validate_narrowing(before: Object, after: Object) -> Iterator[Cause]:
    """Yield errors if the node selection of a gated pod does not narrow (KEP-3838, validateNodeAffinityMutation)."""
    old, new = object_in(before, "nodeSelector"), object_in(after, "nodeSelector")
    if any(new.get(key) != value for key, value in old.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid_value("spec.nodeSelector", new, detail)
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    old_terms, new_terms = _required_terms(before), _required_terms(after)
    if old_terms and len(old_terms) != len(new_terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid_value(path, new_terms, detail)
        return
    for number, (old_term, new_term) in enumerate(zip(old_terms, new_terms, strict=False)):
        if not _only_adds(old_term, new_term):
            detail = "only additions are allowed (no mutations or deletions)"
            yield invalid_value(f"{path}[{number}]", new_term, detail)


def _required_terms(spec: Object) -> list[Object]:
    affinity = object_in(object_in(spec, "affinity"), "nodeAffinity")
    return list_in(object_in(affinity, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms")


def _only_adds(old: Object, new: Object) -> bool:
    """Return whether a term only adds requirements; nothing can be added to an empty term, which selects no node."""
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in fields):
        return not any(new.get(field) for field in fields)
    return all(list_in(new, field)[: len(list_in(old, field))] == list_in(old, field) for field in fields)


def _lost_tolerations(before: Object, after: Object) -> bool:
    current = list_in(after, "tolerations")
    return any(toleration not in current for toleration in list_in(before, "tolerations"))
