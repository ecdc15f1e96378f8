"""Kinds of jobs in the settings: which settings are valid, and how errors name each invalid field."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given

from support.job_kinds import TRAINING
from support.json_edits import JSON_VALUES, with_field
from zonewise_scheduler.controller.jobs.job_kind import PodSetPattern, parse_job_kinds

Json = dict[str, Any]


def test_a_kind_is_read() -> None:
    [kind] = parse_job_kinds([TRAINING])
    assert kind.resource.path(namespace="ns") == "/apis/example.com/v1/namespaces/ns/trainings"
    assert kind.suspend == ("spec", "run", "suspend")
    assert kind.pod_sets == (
        PodSetPattern("driver", ("spec", "driver")),
        PodSetPattern(
            ("spec", "workers", "*", "name"),
            ("spec", "workers", "*", "template"),
            ("spec", "workers", "*", "replicas"),
            "example.com/index",
        ),
        PodSetPattern("watchers", ("spec", "a/b~", "template"), 2),
    )
    assert kind.active_pods == (("status", "driver"), ("status", "workers", "*", "active"))
    assert (kind.ready_condition, kind.succeeded_condition, kind.failed_condition) == ("Running", "Complete", "Failed")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("group", "Example!", "jobKinds[0].group: not a name: 'Example!'"),
        ("kind", None, "jobKinds[0].kind: is missing"),
        ("suspend", None, "jobKinds[0].suspend: is missing"),
        ("suspend", "/status/suspend", "jobKinds[0].suspend: not a pointer such as /spec/field: '/status/suspend'"),
        ("suspend", "/spec/jobs/*/suspend", "jobKinds[0].suspend: not a pointer such as /spec/field: "),
        ("podSets", [], "jobKinds[0].podSets: a job has at least one: []"),
        ("podSets", None, "jobKinds[0].podSets: is missing"),
        ("podSets.0.template", "/spec", "jobKinds[0].podSets[0].template: not a pointer such as /spec/field, with * "),
        ("podSets.0.name", "The Driver", "jobKinds[0].podSets[0].name: neither a name of small letters"),
        ("podSets.1.name", "workers", "podSets[1].name: not a pointer to a field of each item, as "),
        ("podSets.1.name", "/spec/name", "podSets[1].name: not within the same list as '/spec/workers/*/template'"),
        ("podSets.1.count", "/spec/others/*/n", "podSets[1].count: not within the same list as "),
        ("podSets.1.template", "/spec/a/*/b/*/t", "podSets[1].template: not a pointer such as /spec/field, with * at "),
        ("podSets.2.count", 0, "jobKinds[0].podSets[2].count: not between 1 and 1000000: 0"),
        ("podSets.2.image", "x", "jobKinds[0].podSets[2].image: unknown field"),
        ("activePods", ["/spec/active"], "jobKinds[0].activePods: not a pointer such as /status/field"),
        ("conditions.ready", None, "jobKinds[0].conditions.ready: is missing"),
        ("conditions", "Running", "jobKinds[0].conditions: not an object: 'Running'"),
        ("scope", "Cluster", "jobKinds[0].scope: unknown field"),
    ],
)
def test_an_invalid_field_is_named_with_its_value(path: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match="jobKinds") as error:
        parse_job_kinds([with_field(TRAINING, path, value)])
    assert message in str(error.value)


@given(JSON_VALUES)
def test_an_invalid_value_raises_only_a_value_error(value: object) -> None:
    with suppress(ValueError):
        assert all(kind.pod_sets for kind in parse_job_kinds(value))
