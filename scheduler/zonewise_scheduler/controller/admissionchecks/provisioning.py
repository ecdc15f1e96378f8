"""The next writes for a Workload whose admission waits for capacity: ProvisioningRequests of the cluster autoscaler
(pkg/controller/admissionchecks/provisioning/controller.go Reconcile; KEP-1136).

    observed                                             next writes
    Workload ended, evicted, or without quota            its requests are deleted
    request of another configuration, or of no check     it is deleted
    request, check in another state                      the check's state (provisioning_states.py)
    check Pending, no request, or one that is used up    its PodTemplates, then the next request
    request, PodTemplate of the Workload                 the request becomes the PodTemplate's owner

The PodTemplates of a request are deleted together with it. Everything is derived from the observed objects, so these
functions keep no state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.admissionchecks.provisioning_pod_sets import provisioning_template, requested_pods
from zonewise_scheduler.controller.admissionchecks.provisioning_request import (
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    attempt_of,
    build_pod_template,
    build_request,
    follows_config,
    owned_by,
    request_name,
    template_name,
)
from zonewise_scheduler.controller.admissionchecks.provisioning_states import (
    INACTIVE,
    NOT_NEEDED,
    is_used_up,
    next_check,
    retries_of,
)
from zonewise_scheduler.controller.cluster_cache import object_version, owner_uid, uid_of
from zonewise_scheduler.controller.jobs.interface import StartConflict
from zonewise_scheduler.controller.reconcile.workload import patch_workload
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.admission_checks import PENDING, READY, checks_of
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.status import has_quota, set_admission_check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.admissionchecks.provisioning_config import ProvisioningConfig
    from zonewise_scheduler.controller.admissionchecks.provisioning_pod_sets import RequestedPods
    from zonewise_scheduler.controller.types import Json


FOLLOWED = "follow the ProvisioningRequest"
"""Purpose of a write that changes the message of a check."""
CHECK_UPDATED = "update the check"
"""Purpose of a write that changes the state of a check."""
_MAX_MESSAGE = 32768
"""Maximum number of characters in a check's message (apis/kueue/v1beta2/workload_types.go AdmissionCheckState)."""


class ProvisioningState(NamedTuple):
    """A Workload with the observed objects that concern its requests."""

    workload: Json
    requests: Mapping[str, Json]
    """ProvisioningRequests by name. Those of other owners are ignored."""
    pod_templates: Mapping[str, Json]
    """PodTemplates of its namespace by name."""
    problem: str = ""
    """Why the last creation of an object was rejected; "": it was not rejected."""


class ProvisioningContext(NamedTuple):
    """The inputs on which the writes of all Workloads depend."""

    checks: Mapping[str, ProvisioningConfig | None]
    """AdmissionChecks of this controller by name; None: the configuration is absent or invalid."""
    flavors: Mapping[str, Json]
    """ResourceFlavors by name."""
    now: float


class _Check(NamedTuple):
    """A check of the Workload, with its newest request."""

    observed: Json
    desired: Json
    config: ProvisioningConfig | None
    pods: Sequence[RequestedPods]
    request: Json | None
    attempt: int


def next_provisioning_writes(state: ProvisioningState, context: ProvisioningContext) -> list[Write]:
    """Return the next writes for a Workload, at most one per object. Raises FieldError for an invalid Workload."""
    workload = state.workload
    requests = [obj for obj in state.requests.values() if owner_uid(obj) == uid_of(workload) and not _is_deleted(obj)]
    if is_true(workload, "Finished") or is_true(workload, "Evicted") or not has_quota(workload):
        return [_delete(request) for request in requests]
    if _is_deleted(workload):
        return []
    checks = [
        _observe(check, workload, requests, context.checks[check["name"]])
        for check in checks_of(workload)
        if check.get("name") in context.checks
    ]
    current = {check.request["metadata"]["name"] for check in checks if check.request is not None}
    writes = [_delete(request) for request in requests if request["metadata"]["name"] not in current]
    created: list[Write] = []
    for i, check in enumerate(checks):
        try:
            missing = list(_create(state, check, context.flavors))
        except (StartConflict, FieldError) as error:
            checks[i] = _with_problem(check, str(error))
            continue
        created += missing
        if missing and state.problem:
            checks[i] = _with_problem(check, state.problem)
    return [*writes, *_check_writes(workload, checks, context.now), *created, *_adopted(state, checks)]


def _observe(check: Json, workload: Json, requests: Sequence[Json], config: ProvisioningConfig | None) -> _Check:
    if config is None:
        return _Check(check, {**check, "state": PENDING, "message": INACTIVE}, None, (), None, 0)
    pods = requested_pods(workload, config)
    if not pods:
        ready = check if check.get("state") == READY else {**check, "state": READY, "message": NOT_NEEDED}
        return _Check(check, ready, config, (), None, 0)
    name = workload["metadata"]["name"]
    attempts = {
        attempt: request
        for request in requests
        if follows_config(request, workload, config)
        and (attempt := attempt_of(request["metadata"]["name"], name, check["name"])) > 0
    }
    if not attempts:
        return _Check(check, check, config, pods, None, 0)
    attempt = max(attempts)
    desired = next_check(check, attempts[attempt], attempt, workload, config, pods)
    return _Check(check, desired, config, pods, attempts[attempt], attempt)


def _with_problem(check: _Check, problem: str) -> _Check:
    message = f"no ProvisioningRequest can be created: {problem}"[:_MAX_MESSAGE]
    return check._replace(desired={**check.desired, "message": message})


def _check_writes(workload: Json, checks: Sequence[_Check], now: float) -> Iterator[Write]:
    """Yield the write of the first check that changes. All checks are in one object, so the others follow later."""
    name = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
    for check in checks:
        body = None if check.desired == check.observed else set_admission_check(workload, check.desired, now)
        if body is not None:
            changes_state = check.desired.get("state") != check.observed.get("state")
            yield patch_workload(workload, name, CHECK_UPDATED if changes_state else FOLLOWED, body, "status")
            return


def _create(state: ProvisioningState, check: _Check, flavors: Mapping[str, Json]) -> Iterator[Write]:
    """Yield the PodTemplates that a request lacks; once they exist, yield the request."""
    if check.config is None or not check.pods or check.desired.get("state") != PENDING:
        return
    if check.request is not None and not is_used_up(check.request, state.workload):
        return
    metadata: Json = state.workload["metadata"]
    attempt = max(check.attempt, retries_of(check.observed)) + 1
    request = request_name(metadata["name"], check.observed["name"], attempt)
    names = {template_name(request, item.names[0]): item for item in check.pods}
    owners = {name: owner_uid(state.pod_templates[name]) for name in names if name in state.pod_templates}
    if any(owner != uid_of(state.workload) for owner in owners.values()):
        return  # it is deleted together with an earlier request of this name
    missing = [name for name in names if name not in owners]
    for name in missing:
        template = provisioning_template(state.workload, names[name], flavors)
        yield _write(state, POD_TEMPLATES, name, build_pod_template(state.workload, name, template))
    if not missing and request not in state.requests:
        obj = build_request(state.workload, request, check.config, check.pods)
        yield _write(state, PROVISIONING_REQUESTS, request, obj)


def _adopted(state: ProvisioningState, checks: Sequence[_Check]) -> Iterator[Write]:
    """Yield the writes that make a request the owner of its PodTemplates."""
    for check in checks:
        if check.request is None:
            continue
        request = check.request["metadata"]
        for item in check.pods:
            name = template_name(request["name"], item.names[0])
            template = state.pod_templates.get(name)
            if template is None or owner_uid(template) != uid_of(state.workload):
                continue
            owner = owned_by(PROVISIONING_REQUESTS, request["name"], request["uid"])
            key = ObjectKey(POD_TEMPLATES, request["namespace"], name)
            version = str(object_version(template) or "")
            body = {"metadata": {"ownerReferences": [owner]}}
            yield Write(
                Verb.MERGE_PATCH, key, "adopt the PodTemplate", body, uid=uid_of(template), resource_version=version
            )


def _write(state: ProvisioningState, resource: Resource, name: str, obj: Json) -> Write:
    metadata: Json = state.workload["metadata"]
    key = ObjectKey(resource, metadata["namespace"], name)
    workload = f"{metadata['namespace']}/{metadata['name']}"
    return Write(Verb.CREATE, key, f"create the {resource.kind}", obj, workload=workload)


def _delete(request: Json) -> Write:
    key = ObjectKey(PROVISIONING_REQUESTS, request["metadata"]["namespace"], request["metadata"]["name"])
    return Write(Verb.DELETE, key, "delete the ProvisioningRequest", uid=uid_of(request))


def _is_deleted(obj: Json) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))
