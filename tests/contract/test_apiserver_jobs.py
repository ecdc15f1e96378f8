"""Jobs: defaults, and updates of spec and status. The embedded API server behaves like the real one."""

from __future__ import annotations

from typing import Any

import pytest

from support.api import STRATEGIC, Json
from support.apiserver import real_server
from support.clusters import Cluster, causes_of, cluster, embedded_server, pod

__all__ = ["cluster", "embedded_server", "real_server"]

START, END = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def job(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    template: Json = {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}
    if labels:
        template["metadata"] = {"labels": labels}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def condition(kind: str, status: str = "True") -> Json:
    return {"type": kind, "status": status, "reason": "Reason", "message": "", "lastTransitionTime": START}


def write_status(cluster: Cluster, name: str, **status: Any) -> Json:
    return cluster.api.patch(f"{cluster.jobs}/{name}/status", {"status": status}).ok()


# --- defaults and creation


def test_labels_of_a_job_default_to_those_of_its_template(cluster: Cluster) -> None:
    plain = cluster.api.post(cluster.jobs, job("plain")).ok()
    labelled = cluster.api.post(cluster.jobs, job("labelled", {"a": "b"})).ok()
    chosen = cluster.api.post(
        cluster.jobs, {**job("chosen"), "metadata": {"name": "chosen", "labels": {"c": "d"}}}
    ).ok()
    assert plain["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "plain"
    assert labelled["metadata"]["labels"].items() >= {"a": "b", "batch.kubernetes.io/job-name": "labelled"}.items()
    assert chosen["metadata"]["labels"] == {"c": "d"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"parallelism": 1, "completions": 1, "backoffLimit": 6, "podReplacementPolicy": "TerminatingOrFailed"}),
        ({"completions": 3}, {"parallelism": 1, "completions": 3}),
        ({"completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}, {"backoffLimit": 2147483647}),
        (
            {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}},
            {"podReplacementPolicy": "Failed"},
        ),
    ],
)
def test_defaults_follow_from_other_fields(cluster: Cluster, spec: Json, expected: Json) -> None:
    assert cluster.api.post(cluster.jobs, job("one", **spec)).ok()["spec"].items() >= expected.items()


def test_a_misspelled_field_is_rejected_under_strict_validation(cluster: Cluster) -> None:
    """The client kubectl requests this: otherwise, a Job with a misspelled field would run with the default."""
    body = job("one", paralelism=2)
    status = cluster.api.post(cluster.jobs, body, fieldValidation="Strict").refused(400, "BadRequest")
    assert status["message"].endswith('strict decoding error: unknown field "spec.paralelism"')
    cluster.api.post(cluster.jobs, body).ok()


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"parallelism": -1}, ("spec.parallelism", "FieldValueInvalid")),
        ({"completionMode": "Indexed", "parallelism": 2}, ("spec.completions", "FieldValueRequired")),
        ({"backoffLimitPerIndex": 1}, ("spec.backoffLimitPerIndex", "FieldValueInvalid")),
        (
            {"podFailurePolicy": {"rules": [{"action": "Sing", "onPodConditions": [{"type": "A"}]}]}},
            ("spec.podFailurePolicy.rules[0].action", "FieldValueNotSupported"),
        ),
        (
            {
                "podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "A"}]}]},
                "podReplacementPolicy": "TerminatingOrFailed",
            },
            ("spec.podReplacementPolicy", "FieldValueNotSupported"),
        ),
        ({"template": {"spec": pod("x")["spec"]}}, ("spec.template.spec.restartPolicy", "FieldValueRequired")),
        (
            {"template": {"spec": {"restartPolicy": "Never", "containers": []}}},
            ("spec.template.spec.containers", "FieldValueRequired"),
        ),
    ],
)
def test_invalid_jobs_name_the_field(cluster: Cluster, spec: Json, cause: tuple[str, str]) -> None:
    assert cause in causes_of(cluster.api.post(cluster.jobs, job("one", **spec)).refused(422, "Invalid"))


# --- permitted updates


@pytest.mark.parametrize(
    "change",
    [
        {"nodeSelector": {"a": "b"}},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"schedulingGates": [{"name": "example.com/one"}]},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}},
        {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]},
    ],
)  # fmt: skip
def test_directives_and_resources_are_mutable_while_suspended(cluster: Cluster, change: Json) -> None:
    """KEP-2926 and KEP-5440: this also holds after the job has run, once its pods have ended and it is Suspended."""
    path, patch = f"{cluster.jobs}/one", {"spec": {"template": {"spec": change}}}
    cluster.api.post(cluster.jobs, job("one", suspend=False)).ok()
    write_status(cluster, "one", startTime=START, active=1, ready=0)
    cluster.api.patch(path, patch, STRATEGIC).refused(422, "Invalid")
    cluster.api.patch(path, {"spec": {"suspend": True}}).ok()
    cluster.api.patch(path, patch, STRATEGIC).refused(422, "Invalid")
    write_status(cluster, "one", active=0, conditions=[condition("Suspended")])
    cluster.api.patch(path, patch, STRATEGIC).ok()


FIXED: list[Json] = [
    {"containers": [{"name": "main", "image": "registry.example.com/other:1"}]},
    {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a", "labelSelector": {}}]
            }
        }
    },
    {"priorityClassName": "system-node-critical"},
]


@pytest.mark.parametrize("change", FIXED)
def test_the_rest_of_a_suspended_job_is_fixed(cluster: Cluster, change: Json) -> None:
    cluster.api.post(cluster.jobs, job("one", suspend=True)).ok()
    patch = {"spec": {"template": {"spec": change}}}
    status = cluster.api.patch(f"{cluster.jobs}/one", patch, STRATEGIC).refused(422, "Invalid")
    assert ("spec.template.spec", "FieldValueInvalid") in causes_of(status)


def test_labels_of_the_template_are_mutable_while_suspended(cluster: Cluster) -> None:
    cluster.api.post(cluster.jobs, job("one", suspend=True)).ok()
    patch = {"spec": {"template": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}}}
    cluster.api.patch(f"{cluster.jobs}/one", {**patch, "spec": {**patch["spec"], "suspend": False}}).ok()
    patch = {"spec": {"template": {"metadata": {"labels": {"a": "c"}}}}}
    status = cluster.api.patch(f"{cluster.jobs}/one", patch).refused(422, "Invalid")
    assert ("spec.template", "FieldValueInvalid") in causes_of(status)


def test_only_an_elastic_indexed_job_changes_its_completions(cluster: Cluster) -> None:
    cluster.api.post(cluster.jobs, job("plain", completions=2, parallelism=2)).ok()
    cluster.api.post(cluster.jobs, job("elastic", completions=2, parallelism=2, completionMode="Indexed")).ok()
    status = cluster.api.patch(f"{cluster.jobs}/plain", {"spec": {"completions": 3}}).refused(422, "Invalid")
    assert ("spec.completions", "FieldValueInvalid") in causes_of(status)
    cluster.api.patch(f"{cluster.jobs}/plain", {"spec": {"parallelism": 3}}).ok()
    path = f"{cluster.jobs}/elastic"
    status = cluster.api.patch(path, {"spec": {"completions": 3}}).refused(422, "Invalid")
    assert ("spec.completions", "FieldValueInvalid") in causes_of(status)
    cluster.api.patch(path, {"spec": {"completions": 3, "parallelism": 3}}).ok()


@pytest.mark.parametrize(
    ("field", "value"),
    [("completionMode", "Indexed"), ("managedBy", "example.com/other"), ("backoffLimitPerIndex", 1)],
)
def test_fields_that_no_update_changes(cluster: Cluster, field: str, value: object) -> None:
    cluster.api.post(cluster.jobs, job("one", suspend=True)).ok()
    status = cluster.api.patch(f"{cluster.jobs}/one", {"spec": {field: value}}).refused(422, "Invalid")
    assert (f"spec.{field}", "FieldValueInvalid") in causes_of(status)


# --- status


def test_the_start_time_of_a_running_job_is_fixed(cluster: Cluster) -> None:
    path = f"{cluster.jobs}/one/status"
    cluster.api.post(cluster.jobs, job("one")).ok()
    write_status(cluster, "one", startTime=START)
    for value in (END, None):
        status = cluster.api.patch(path, {"status": {"startTime": value}}).refused(422, "Invalid")
        assert ("status.startTime", "FieldValueInvalid") in causes_of(status)
    cluster.api.patch(f"{cluster.jobs}/one", {"spec": {"suspend": True}}).ok()
    write_status(cluster, "one", startTime=None, conditions=[condition("Suspended")])
    cluster.api.patch(f"{cluster.jobs}/one", {"spec": {"suspend": False}}).ok()
    write_status(cluster, "one", startTime=END, conditions=[condition("Suspended", "False")])


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ({"conditions": [condition("Complete")], "completionTime": END}, ("status.conditions", "FieldValueInvalid")),
        ({"conditions": [condition("Failed")]}, ("status.conditions", "FieldValueInvalid")),
        (
            {"conditions": [condition("SuccessCriteriaMet"), condition("Complete")]},
            ("status.completionTime", "FieldValueRequired"),
        ),
        ({"completionTime": END}, ("status.completionTime", "FieldValueInvalid")),
        ({"active": 1, "ready": 2}, ("status.ready", "FieldValueInvalid")),
        ({"active": -1}, ("status.active", "FieldValueInvalid")),
        (
            {"active": 1, "conditions": [condition("FailureTarget"), condition("Failed")]},
            ("status.active", "FieldValueInvalid"),
        ),
        ({"completedIndexes": "0"}, ("status.completedIndexes", "FieldValueInvalid")),
        (
            {"conditions": [condition("SuccessCriteriaMet"), condition("FailureTarget")]},
            ("status.conditions", "FieldValueInvalid"),
        ),
    ],
)
def test_a_status_that_contradicts_itself_is_rejected(cluster: Cluster, status: Json, cause: tuple[str, str]) -> None:
    cluster.api.post(cluster.jobs, job("one")).ok()
    write_status(cluster, "one", startTime=START)
    body = cluster.api.patch(f"{cluster.jobs}/one/status", {"status": status}).refused(422, "Invalid")
    assert cause in causes_of(body)


def test_counters_only_rise_and_ends_are_final(cluster: Cluster) -> None:
    path = f"{cluster.jobs}/one/status"
    cluster.api.post(cluster.jobs, job("one")).ok()
    ended = [condition("SuccessCriteriaMet"), condition("Complete")]
    write_status(cluster, "one", startTime=START, failed=1, succeeded=1, conditions=ended, completionTime=END)
    for change, field in (
        ({"failed": 0}, "status.failed"),
        ({"succeeded": 0}, "status.succeeded"),
        ({"conditions": ended[:1]}, "status.conditions"),
        ({"completionTime": START}, "status.completionTime"),
    ):
        body = cluster.api.patch(path, {"status": change}).refused(422, "Invalid")
        assert (field, "FieldValueInvalid") in causes_of(body)


# --- gated pods


GATES = [{"name": "example.com/one"}]


def affinity(*terms: Json) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def on(*names: str) -> Json:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}


def having(*keys: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}


@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        ({}, affinity(on("node-1")), True),
        ({}, {"nodeSelector": {"a": "b"}}, True),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "c"}}, False),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": None}}, False),
        (affinity(having("a")), affinity(having("a", "b")), True),
        (affinity(having("a")), affinity({**having("a"), **on("node-1")}), True),
        (affinity(having("a", "b")), affinity(having("b", "a")), False),
        (affinity(having("a")), affinity(having("b")), False),
        (affinity(having("a")), affinity(having("a"), having("b")), False),
        (affinity(having("a")), {"affinity": None}, False),
    ],
)
def test_the_node_selection_of_a_gated_pod_only_narrows(
    cluster: Cluster, before: Json, after: Json, accepted: bool
) -> None:
    cluster.api.post(cluster.pods, pod("one", schedulingGates=GATES, **before)).ok()
    answer = cluster.api.patch(f"{cluster.pods}/one", {"spec": {**after, "schedulingGates": []}})
    assert answer.status == (200 if accepted else 422), answer.body


def test_the_pod_affinity_of_a_gated_pod_is_fixed(cluster: Cluster) -> None:
    cluster.api.post(cluster.pods, pod("one", schedulingGates=GATES)).ok()
    term: Json = {"topologyKey": "a", "labelSelector": {}}
    change: Json = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    status = cluster.api.patch(f"{cluster.pods}/one", {"spec": change}).refused(422, "Invalid")
    assert ("spec", "FieldValueForbidden") in causes_of(status)
