"""The rules for batch/v1 Jobs: defaults, creation, and the spec updates that a queue makes.

Sources: pkg/apis/batch/v1/defaults.go, pkg/registry/batch/job/strategy.go, pkg/apis/batch/validation/validation.go of
Kubernetes 1.36, with the gates MutableSchedulingDirectivesForSuspendedJobs and MutablePodResourcesForSuspendedJobs
enabled (KEP-5440), which is the default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.jobspec import JOB_SPEC_FIELDS
from zonewise_sandbox.apiserver import pod_strategy
from zonewise_sandbox.apiserver.job_status import condition_is
from zonewise_sandbox.apiserver.json_values import list_in, object_in
from zonewise_sandbox.apiserver.status_errors import Cause, invalid_value, required, unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_sandbox.apiserver.json_values import Object

BACKOFF_LIMIT = 6
_MAX_INT32 = (1 << 31) - 1
_DEFAULTS: Object = {"parallelism": 1, "completionMode": "NonIndexed", "suspend": False, "manualSelector": False}
_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_IMMUTABLE = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")


def set_defaults(job: Object) -> Object:
    """Return a job with its defaults."""
    declared = object_in(job, "spec")
    spec = {**_DEFAULTS, **declared}
    if "completions" not in declared and "parallelism" not in declared:
        spec["completions"] = 1  # with only parallelism it is a work queue: any one success completes it
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else BACKOFF_LIMIT)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    template = object_in(spec, "template")
    spec["template"] = {**template, "spec": pod_strategy.set_pod_spec_defaults(object_in(template, "spec"))}
    return {**job, "spec": spec}


def unknown_fields(job: Object) -> list[str]:
    """Return the paths of fields that the spec of a Job lacks; those of its template are not looked at."""
    return [f"spec.{name}" for name in object_in(job, "spec") if name not in JOB_SPEC_FIELDS]


def prepare_for_create(job: Object) -> Object:
    """Return a new job whose template is labelled with name and UID, with a selector on the UID.

    A job without labels gets those of its template: defaults are set again when it is read (SetDefaults_Job).
    """
    uid, name, spec = job["metadata"]["uid"], job["metadata"]["name"], job["spec"]
    if not spec["manualSelector"]:
        metadata = object_in(spec["template"], "metadata")
        generated = {f"{prefix}controller-uid": uid for prefix in ("batch.kubernetes.io/", "")}
        generated |= {f"{prefix}job-name": name for prefix in ("batch.kubernetes.io/", "")}
        labels = {**generated, **object_in(metadata, "labels")}
        template = {**spec["template"], "metadata": {**metadata, "labels": labels}}
        match = {"batch.kubernetes.io/controller-uid": uid, **object_in(object_in(spec, "selector"), "matchLabels")}
        selector = {**object_in(spec, "selector"), "matchLabels": match}
        spec = {**spec, "template": template, "selector": selector}
    labels = job["metadata"].get("labels") or object_in(object_in(spec["template"], "metadata"), "labels")
    metadata = {**job["metadata"], "labels": labels} if labels else job["metadata"]
    return {**job, "metadata": metadata, "spec": spec, "status": {}}


def validate_job(job: Object) -> Iterator[Cause]:
    """Yield the invalid fields of a job (ValidateJob)."""
    spec = job["spec"]
    for field in _COUNTS:
        if (spec.get(field) or 0) < 0:
            yield invalid_value(f"spec.{field}", spec[field], "must be greater than or equal to 0")
    yield from _validate_selector(job)
    yield from _validate_completion_mode(spec)
    for number, rule in enumerate(list_in(object_in(spec, "podFailurePolicy"), "rules")):
        yield from _validate_failure_rule(spec, rule, f"spec.podFailurePolicy.rules[{number}]")
    if "podFailurePolicy" in spec and spec["podReplacementPolicy"] != "Failed":
        yield unsupported("spec.podReplacementPolicy", spec["podReplacementPolicy"], ("Failed",))
    yield from pod_strategy.validate_containers(spec["template"]["spec"], "spec.template.spec")
    restart, path = spec["template"]["spec"]["restartPolicy"], "spec.template.spec.restartPolicy"
    if restart == "Always":
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif restart not in {"OnFailure", "Never"}:
        yield unsupported(path, restart, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and restart != "Never":
        yield invalid_value(path, restart, 'only "Never" is supported when podFailurePolicy is specified')


def validate_job_update(old: Object, new: Object) -> Iterator[Cause]:
    """Yield the errors of an update (ValidateJobUpdate)."""
    yield from validate_job(new)
    before, after = old["spec"], new["spec"]
    for field in _IMMUTABLE:
        if before.get(field) != after.get(field):
            yield invalid_value(f"spec.{field}", after.get(field), "field is immutable")
    yield from _validate_completions_update(before, after)
    free = _allows_mutable_template(old)
    fixed, changed = _fixed_template(before["template"], free=free), _fixed_template(after["template"], free=free)
    if not before["suspend"] or not free:
        if fixed != changed:
            yield invalid_value("spec.template", after["template"], "field is immutable")
    elif fixed["spec"] != changed["spec"]:
        yield invalid_value("spec.template.spec", after["template"]["spec"], "field is immutable")


def _validate_selector(job: Object) -> Iterator[Cause]:
    spec, path = job["spec"], "spec.template.metadata.labels"
    labels = object_in(object_in(spec["template"], "metadata"), "labels")
    if not spec.get("selector"):
        yield required("spec.selector")
        return
    if not spec["manualSelector"]:
        metadata = job["metadata"]
        expected = {"controller-uid": metadata["uid"], "job-name": metadata["name"]}
        for name, value in expected.items():
            for key in (name, f"batch.kubernetes.io/{name}"):
                if labels.get(key) != value:
                    yield invalid_value(path, labels, f'must be "{value}"')
    if any(labels.get(key) != value for key, value in object_in(spec["selector"], "matchLabels").items()):
        yield invalid_value(path, labels, "`selector` does not match template `labels`")


def _validate_completion_mode(spec: Object) -> Iterator[Cause]:
    mode = spec["completionMode"]
    if mode not in {"NonIndexed", "Indexed"}:
        yield unsupported("spec.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed" and "completions" not in spec:
        yield required("spec.completions", "when completion mode is Indexed")
    if mode != "Indexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if field in spec:
                yield invalid_value(f"spec.{field}", spec[field], "requires indexed completion mode")
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")


def _validate_failure_rule(spec: Object, rule: Object, path: str) -> Iterator[Cause]:
    action = rule.get("action")
    if not action:
        yield required(f"{path}.action")
    elif action not in _ACTIONS:
        yield unsupported(f"{path}.action", action, _ACTIONS)
    elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
        yield invalid_value(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    if bool(rule.get("onExitCodes")) == bool(rule.get("onPodConditions")):
        yield Cause("FieldValueInvalid", path, "Invalid value: specifying one of OnExitCodes and OnPodConditions")


def _validate_completions_update(before: Object, after: Object) -> Iterator[Cause]:
    """Yield an error if completions change; elastic Indexed jobs allow this together with parallelism (KEP-3715)."""
    if before.get("completions") == after.get("completions"):
        return
    if after["completionMode"] != "Indexed":
        yield invalid_value("spec.completions", after.get("completions"), "field is immutable")
    elif after.get("completions", after["parallelism"]) != after["parallelism"]:
        detail = "can only be modified in tandem with spec.parallelism"
        yield invalid_value("spec.completions", after["completions"], detail)


def _allows_mutable_template(job: Object) -> bool:
    """Return whether a job is suspended without active pods (strategy.go shouldAllowMutablePodTemplate)."""
    status = object_in(job, "status")
    has_stopped = "startTime" not in status or condition_is(job, "Suspended")
    return bool(job["spec"]["suspend"]) and has_stopped and not status.get("active")


def _fixed_template(template: Object, *, free: bool) -> Object:
    """Return the immutable part of a template; `free` makes scheduling directives and container resources mutable."""
    if not free:
        return _without_empty_metadata(template)
    spec = {name: value for name, value in template["spec"].items() if name not in _DIRECTIVES}
    affinity = {name: value for name, value in object_in(spec, "affinity").items() if name != "nodeAffinity"}
    spec["affinity"] = affinity
    for field in ("containers", "initContainers"):
        spec[field] = [{**container, "resources": None} for container in list_in(spec, field)]
    return {"spec": spec}


def _without_empty_metadata(template: Object) -> Object:
    metadata: Object = {name: value for name, value in object_in(template, "metadata").items() if value}
    return {**template, "metadata": metadata}
