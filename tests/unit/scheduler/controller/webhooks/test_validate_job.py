"""Validation of jobs: invalid declarations are rejected with field and value; running jobs must not change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.admission_reviews import QUEUE, job, problems_of, rules
from support.job_kinds import ray_cluster_spec

ELASTIC = "kueue.x-k8s.io/elastic-job"
MIN = "kueue.x-k8s.io/job-min-parallelism"
EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
AFTER = "zonewise.dev/dependency"
RUN = "zonewise.dev/max-run-seconds"
PRIORITY = "kueue.x-k8s.io/priority-class"
TOPOLOGY = "kueue.x-k8s.io/podset"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
GATES = "kueue.x-k8s.io/admission-gated-by"
LEVELS = f"{TOPOLOGY}-slice-required-topology-constraints"


@pytest.mark.parametrize(
    "valid",
    [
        job("team.queue-1"),
        job("q", {MIN: "3"}),
        job("q", {GATES: "example.com/a, example.com/b:c"}),
        job("q", {GATES: ""}),
        job("q", {AFTER: "afterok:a:b,afterany:c"}),
        job("q", {RUN: "1d12h"}, {SECONDS: "3600"}),
        job("q", {EQUAL: "true"}, completionMode="Indexed", completions=4),
        job("q", template={f"{TOPOLOGY}-required-topology": "example.com/rack"}),
        job("q", template={f"{TOPOLOGY}-slice-required-topology": "rack", f"{TOPOLOGY}-slice-size": "2"}),
        job("q", template={LEVELS: json.dumps([{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}])}),
        job("q", {EQUAL: "True"}, completionMode="Indexed", completions=4),
        job("q", template={f"{TOPOLOGY}-unconstrained-topology": "1"}),
        job("q", template={f"{TOPOLOGY}-unconstrained-topology": "true"}),
    ],
)
def test_valid_jobs(valid: Any) -> None:
    assert problems_of(valid) == ""


@pytest.mark.parametrize(
    ("field", "value", "invalid"),
    [
        (f"metadata.labels[{QUEUE}]", "'Team_A'", job("Team_A")),
        (f"metadata.labels[{PRIORITY}]", "'High!'", job("q", labels={PRIORITY: "High!"})),
        (f"metadata.annotations[{PREBUILT}]", "'A_B'", job("q", {PREBUILT: "A_B"})),
        (f"metadata.annotations[{PREBUILT}]", "'A_B'", job("q", labels={PREBUILT: "A_B"})),
        (f"metadata.annotations[{GATES}]", "'a' is not the name of a gate", job("q", {GATES: "a.b/c,a"})),
        (f"metadata.annotations[{GATES}]", "'' is not the name of a gate", job("q", {GATES: "a.b/c,"})),
        (f"metadata.annotations[{GATES}]", "'a.b/c' is listed more than once", job("q", {GATES: "a.b/c, a.b/c"})),
        (f"metadata.annotations[{MIN}]", "'4' must be a number from 1 to 3", job("q", {MIN: "4"})),
        (f"metadata.annotations[{MIN}]", "'2' must be a number from 1 to 1", job("q", {MIN: "2"}, completions=2)),
        (f"metadata.annotations[{MIN}]", "'0'", job("q", {MIN: "0"})),
        (f"metadata.annotations[{MIN}]", "'1.5'", job("q", {MIN: "1.5"})),
        (f"metadata.annotations[{MIN}]", "remove it", job("q", {MIN: "1"}, parallelism=1)),
        (f"metadata.annotations[{MIN}]", "remove one of the annotations", job("q", {MIN: "2", ELASTIC: "true"})),
        (f"spec.template.metadata.annotations[{TOPOLOGY}-required-topology]", "'rack' an elastic job",
         job("q", {ELASTIC: "true"}, template={f"{TOPOLOGY}-required-topology": "rack"})),
        (f"spec.template.metadata.annotations[{TOPOLOGY}-preferred-topology]", "'rack' an elastic job",
         job("q", {ELASTIC: "true"}, template={f"{TOPOLOGY}-preferred-topology": "rack"})),
        (f"metadata.annotations[{EQUAL}]", "'yes'", job("q", {EQUAL: "yes"})),
        (f"metadata.annotations[{EQUAL}]", "Indexed", job("q", {EQUAL: "true"}, completions=4)),
        ("spec.completions", "8 must equal", job("q", {EQUAL: "true"}, completionMode="Indexed", completions=8)),
        (f"metadata.labels[{SECONDS}]", "'-1'", job("q", labels={SECONDS: "-1"})),
        (f"metadata.labels[{SECONDS}]", "'0'", job("q", labels={SECONDS: "0"})),
        (f"metadata.labels[{SECONDS}]", "'99999999999'", job("q", labels={SECONDS: "99999999999"})),
        (f"metadata.annotations[{AFTER}]", "'after:a' is not a dependency", job("q", {AFTER: "afterok:b,after:a"})),
        (f"metadata.annotations[{AFTER}]", "'A' is not a Job name", job("q", {AFTER: "afterok:A"})),
        (f"metadata.annotations[{RUN}]", "'-5m'", job("q", {RUN: "-5m"})),
        (f"metadata.annotations[{RUN}]", "'0'", job("q", {RUN: "0"})),
        (f"metadata.annotations[{RUN}]", "at most 2147483647 seconds", job("q", {RUN: "99999d"})),
        (f"spec.template.metadata.annotations[{TOPOLOGY}-required-topology]", "'not a label'",
         job("q", template={f"{TOPOLOGY}-required-topology": "not a label"})),
        ("spec.template.metadata.annotations", "exclude each other",
         job("q", template={f"{TOPOLOGY}-required-topology": "a", f"{TOPOLOGY}-preferred-topology": "a"})),
        (f"spec.template.metadata.annotations[{TOPOLOGY}-unconstrained-topology]", "'maybe'",
         job("q", template={f"{TOPOLOGY}-unconstrained-topology": "maybe"})),
        ("spec.template.metadata.annotations", "both or neither", job("q", template={f"{TOPOLOGY}-slice-size": "2"})),
        (f"spec.template.metadata.annotations[{TOPOLOGY}-slice-size]", "'0'",
         job("q", template={f"{TOPOLOGY}-slice-size": "0", f"{TOPOLOGY}-slice-required-topology": "a"})),
        (f"spec.template.metadata.annotations[{LEVELS}]", "'[]'", job("q", template={LEVELS: "[]"})),
        (f"spec.template.metadata.annotations[{LEVELS}]", "'{'", job("q", template={LEVELS: "{"})),
        (f"spec.template.metadata.annotations[{LEVELS}]", "size",
         job("q", template={LEVELS: '[{"topology": "a", "size": true}]'})),
        ("spec.template.metadata.annotations", "replaces",
         job("q", template={LEVELS: '[{"topology": "a", "size": 1}]', f"{TOPOLOGY}-slice-size": "2"})),
        ("metadata.annotations", "1000003 bytes", job("q", {"big": "x" * 1_000_000})),
        ("spec.template.metadata.annotations", "ConfigMap", job("q", template={"big": "x" * 1_000_000})),
    ],
)  # fmt: skip
def test_invalid_declarations(field: str, value: str, invalid: Any) -> None:
    """The message contains the field, the value, and what to do."""
    message = problems_of(invalid)
    assert f"{field}" in message
    assert value in message
    assert len(message) < 1000


def test_all_problems_are_reported_at_once() -> None:
    message = problems_of(job("Team_A", {RUN: "never", MIN: "9"}))
    assert message.count("; ") == 2


def test_templates_of_other_kinds_are_found() -> None:
    """Each pod template counts, wherever it is in the object."""
    template = job("q", template={f"{TOPOLOGY}-slice-size": "2"})["spec"]["template"]
    spec = {"replicatedJobs": [{"name": "a"}, {"name": "b", "template": {"spec": {"template": template}}}]}
    job_set = {**job("q"), "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": spec}
    assert "spec.replicatedJobs[1].template.spec.template.metadata.annotations: " in problems_of(job_set)


RUNNING: Any = {"suspend": False}
HELD: Any = {"suspend": True}


@pytest.mark.parametrize(
    ("field", "old", "new"),
    [
        (f"metadata.labels[{QUEUE}]", job("a", **RUNNING), job("b", **RUNNING)),
        (f"metadata.labels[{QUEUE}]", job("a", **RUNNING), job(**RUNNING)),
        (f"metadata.labels[{QUEUE}]", job(**RUNNING), job("a", **RUNNING)),
        (f"metadata.labels[{QUEUE}]", job("a", **HELD), job("b", **RUNNING)),
        (f"metadata.annotations[{PREBUILT}]", job("a", **RUNNING), job("a", {PREBUILT: "w"}, **RUNNING)),
        (f"metadata.labels[{SECONDS}]", job("a", **RUNNING), job("a", labels={SECONDS: "9"}, **RUNNING)),
        (f"metadata.labels[{SECONDS}]", job("a", **HELD), job("a", labels={SECONDS: "9"}, **RUNNING)),
        (f"metadata.annotations[{RUN}]", job("a", {RUN: "1h"}, **RUNNING), job("a", {RUN: "9h"}, **RUNNING)),
        (f"metadata.labels[{PRIORITY}]", job("a", **RUNNING), job("a", labels={PRIORITY: "b"}, **RUNNING)),
        (f"metadata.labels[{PRIORITY}]", job("a", labels={PRIORITY: "b"}, **HELD), job("a", **HELD)),
        ("spec.parallelism", job("a", {MIN: "1"}, **RUNNING), job("a", {MIN: "1"}, **RUNNING, parallelism=3)),
        (f"metadata.annotations[{ELASTIC}]", job("a", **HELD), job("a", {ELASTIC: "true"}, **HELD)),
        (f"metadata.annotations[{ELASTIC}]", job("a", {ELASTIC: "true"}, **RUNNING), job("a", **RUNNING)),
    ],
)
def test_changes_of_a_running_job(field: str, old: Any, new: Any) -> None:
    assert problems_of(new, old).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (job("a", **HELD), job("b", **HELD)),
        (job("a", **RUNNING), job("b", **HELD)),
        (job("a", **HELD), job("a", {PREBUILT: "w"}, **HELD)),
        (job("a", labels={PREBUILT: "w"}, **RUNNING), job("a", {PREBUILT: "w"}, **RUNNING)),
        (job("a", **HELD), job("a", labels={SECONDS: "9"}, **HELD)),
        (job("a", **RUNNING), job("a", **RUNNING, parallelism=3)),
        (job("a", {ELASTIC: "true"}, **RUNNING), job("a", {ELASTIC: "true"}, **RUNNING, parallelism=9)),
        (job("a", {ELASTIC: "no"}, **RUNNING), job("a", **RUNNING)),
        # a start with a partial admission has the number of admitted pods
        (job("a", {MIN: "2"}, **HELD), job("a", {MIN: "2"}, **RUNNING, parallelism=2)),
        (job("a", labels={PRIORITY: "b"}, **RUNNING), job("a", labels={PRIORITY: "c"}, **RUNNING)),
        # a problem that was stored before the webhook was installed
        (job("a", {RUN: "2 hours"}, **RUNNING), job("a", {RUN: "2 hours"}, **HELD)),
    ],
)
def test_permitted_changes(old: Any, new: Any) -> None:
    assert problems_of(new, old) == ""


def test_an_update_may_keep_a_stored_problem_but_not_add_another() -> None:
    old = job("a", {RUN: "2 hours"}, **HELD)
    assert problems_of(job("a", {RUN: "3 hours"}, **HELD), old).startswith(f"metadata.annotations[{RUN}]: ")


def test_a_ray_cluster_may_scale_itself_unless_it_is_queued() -> None:
    def cluster(queue: str, *, scales: bool) -> Any:
        spec = {"enableInTreeAutoscaling": scales, **ray_cluster_spec({"spec": {"containers": []}})}
        labels = {QUEUE: queue} if queue else {}
        metadata = {"name": "r", "namespace": "team-a", "labels": labels}
        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": metadata,
            "spec": {"suspend": True, **spec},
        }

    assert problems_of(cluster("", scales=True), cluster("", scales=False)) == ""
    assert "fixed number of pods" in problems_of(cluster("q", scales=True), cluster("q", scales=False))
    assert "fixed number of pods" in problems_of(cluster("q", scales=True))


def test_a_queue_cannot_be_removed_if_there_is_a_default_queue() -> None:
    assert problems_of(job(**HELD), job("a", **HELD)) == ""
    assert "default queue" in problems_of(job(**HELD), job("a", **HELD), rules(default_queue=True))


def test_a_job_without_a_queue_remains_suspended_if_such_jobs_are_managed() -> None:
    held, resumed, managed = job(**HELD), job(), rules(without_name=True)
    assert f"metadata.labels[{QUEUE}]: missing" in problems_of(resumed, held, managed)
    assert problems_of(resumed, held) == ""
    assert problems_of(resumed, resumed, managed) == "", "it was running before such jobs were managed"
    assert problems_of(job("a", **HELD), held, managed) == ""
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "controller": True}
    resumed["metadata"]["ownerReferences"] = [owner]
    assert problems_of(resumed, held, managed) == "", "its JobSet is managed instead"


def test_admission_gates_can_only_be_removed() -> None:
    both, one, none = (job("q", {GATES: gates}) for gates in ("a.b/c,a.b/d", "a.b/d", ""))
    assert problems_of(one, both) == problems_of(none, both) == problems_of(both, both) == ""
    for old in (one, none, job("q")):
        assert "gates can only be removed" in problems_of(both, old)
