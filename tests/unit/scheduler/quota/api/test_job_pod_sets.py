"""The pod sets that follow from the spec and the annotations of a job."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError, FieldReader
from zonewise_scheduler.quota.api.job_pod_sets import (
    COMPLETION_INDEX,
    MAX_PODS,
    MIN_PARALLELISM_ANNOTATION,
    NO_INDEXES,
    PodIndexes,
    parse_pod_count,
    pods_at_a_time,
    read_job_pod_set,
    read_pod_set,
)
from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest, read_pod_set_manifests

Json = dict[str, Any]

KUEUE = "kueue.x-k8s.io/"


def topology_request(annotations: dict[str, str], indexes: PodIndexes = NO_INDEXES) -> tuple[Json | None, list[str]]:
    """Return the request of a template with annotations, and the problems."""
    problems: list[str] = []
    named = {f"{KUEUE}podset-{name.replace('_', '-')}": value for name, value in annotations.items()}
    reader = FieldReader({"metadata": {"annotations": named}}, "template.", problems)
    return read_pod_set("main", 1, reader, indexes).topology_request, problems


@pytest.mark.parametrize(
    ("annotations", "request_object"),
    [
        ({}, None),
        ({"required_topology": "rack"}, {"required": "rack"}),
        ({"required_topology": "rack", "preferred_topology": "row"}, {"required": "rack"}),
        ({"preferred_topology": "row", "group_name": "g"}, {"preferred": "row", "podSetGroupName": "g"}),
        ({"unconstrained_topology": "T", "group_name": "g"}, {"unconstrained": True}),
        ({"unconstrained_topology": "0"}, {"unconstrained": False}),
        (
            {"slice_required_topology": "rack", "slice_size": "4"},
            {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 4},
        ),
        ({"slice_size": "4"}, None),
        (
            {"slice_required_topology_constraints": '[{"topology": "rack", "size": 4}]', "slice_size": "2"},
            {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": 4}]},
        ),
    ],
)
def test_annotations_request_a_topology(annotations: dict[str, str], request_object: Json | None) -> None:
    assert topology_request(annotations) == (request_object, [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unconstrained_topology", "yes"),
        ("slice_size", "0"),
        ("slice_size", f"{1:012}{0:05000}"),
        ("slice_required_topology_constraints", "[" * 100_000),
        ("slice_required_topology_constraints", "[]"),
        ("slice_required_topology_constraints", "[1]"),
        ("slice_required_topology_constraints", "[" + ", ".join(4 * ['{"topology": "rack", "size": 1}']) + "]"),
        ("slice_required_topology_constraints", '[{"topology": "rack", "size": true}]'),
        ("slice_required_topology_constraints", '[{"topology": "rack", "size": 0}]'),
        ("slice_required_topology_constraints", f'[{{"topology": "rack", "size": {1 << 31}}}]'),
        ("slice_required_topology_constraints", '[{"topology": "rack"}]'),
        ("slice_required_topology_constraints", '[{"size": 1}]'),
        ("slice_required_topology_constraints", '[{"topology": 1, "size": 1}]'),
    ],
)
def test_an_invalid_annotation_is_reported_and_requests_nothing(name: str, value: str) -> None:
    result, problems = topology_request({name: value})
    assert result is None
    [problem] = problems
    assert problem.startswith(f"template.metadata.annotations.{KUEUE}podset-{name.replace('_', '-')}: ")
    assert len(problem) < 400


def test_indexes_of_pods_belong_to_the_request() -> None:
    indexes = PodIndexes("index", "group", 3)
    request: Json = {"podIndexLabel": "index", "subGroupIndexLabel": "group", "subGroupCount": 3}
    assert topology_request({}, indexes) == (request, [])
    job = FieldReader({"spec": {"completionMode": "Indexed"}}, "", [])
    assert read_job_pod_set(job).topology_request == {"podIndexLabel": COMPLETION_INDEX}


def test_a_pod_set_has_no_labels_of_controllers_and_no_duplicate_variables() -> None:
    variables = [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}]
    labels = {
        **{
            f"{prefix}{name}": "j" for name in ("job-name", "controller-uid") for prefix in ("", "batch.kubernetes.io/")
        },
        "mine": "1",
    }
    template = {
        "metadata": {"labels": labels, "annotations": {"a": "1"}, "creationTimestamp": None, "name": "n"},
        "spec": {"containers": [{"name": "c", "env": variables}, {"name": "d"}], "restartPolicy": "Never"},
    }
    assert read_pod_set("main", 1, FieldReader(template, "template.", [])).template == {
        "metadata": {"labels": {"batch.kubernetes.io/job-name": "j", "mine": "1"}, "annotations": {"a": "1"}},
        "spec": {
            "containers": [{"name": "c", "env": [{"name": "A", "value": "2"}, {"name": "B"}]}, {"name": "d"}],
            "restartPolicy": "Never",
        },
    }
    assert len(variables) == 3


@pytest.mark.parametrize(
    "variables",
    [[{"name": f"VARIABLE_{i}"} for i in range(300)], [], [{"name": "A"}, "A"], ["A", "A"], "A", {"A": 1}, 3, None],
)
def test_variables_without_duplicates_are_not_changed(variables: object) -> None:
    """Invalid variables are not changed either: the API server reports them. The containers are shared, not copied."""
    container = {"name": "c", "env": variables}
    pod_set = read_pod_set("main", 1, FieldReader({"spec": {"containers": [container, 1]}}, "template.", []))
    assert pod_set.template["spec"]["containers"] == [container, 1]
    assert pod_set.template["spec"]["containers"][0] is container


def test_pod_sets_are_read_back_from_a_workload() -> None:
    manifest = PodSetManifest("a", 3, {"spec": {}}, 2, {"required": "rack"})
    workload: Json = {"spec": {"podSets": [manifest.as_object(), {"template": {}}, {"count": None}, {"count": 0}]}}
    main = PodSetManifest("main", 1, {})
    assert read_pod_set_manifests(workload) == (manifest, main, main, main._replace(pods=0))


@pytest.mark.parametrize(
    ("pod_set", "message"),
    [
        ({"count": "3"}, "spec.podSets[0].count: not a whole number: '3'"),
        ({"minCount": True}, "spec.podSets[0].minCount: not a whole number: True"),
        ({"template": 1}, "spec.podSets[0].template: not an object: 1"),
    ],
)
def test_an_invalid_pod_set_of_a_workload_is_an_error(pod_set: Json, message: str) -> None:
    with pytest.raises(FieldError) as error:
        read_pod_set_manifests({"spec": {"podSets": [pod_set]}})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({}, 1),
        ({"parallelism": 3}, 3),
        ({"parallelism": 3, "completions": 2}, 2),
        ({"parallelism": 3, "completions": 4}, 3),
        ({"completions": 4}, 1),
        ({"parallelism": 0}, 0),
        ({"parallelism": 3, "completions": 0}, 0),
        ({"parallelism": MAX_PODS}, MAX_PODS),
    ],
)
def test_the_number_of_pods_that_run_at_the_same_time(spec: Json, pods: int) -> None:
    """There are at most as many pods as completions; a Job that declares neither runs one pod."""
    problems: list[str] = []
    assert (pods_at_a_time(FieldReader(spec, "spec.", problems)), problems) == (pods, [])


@pytest.mark.parametrize("field", ["parallelism", "completions"])
@pytest.mark.parametrize("value", [-1, MAX_PODS + 1, "2", True])
def test_an_invalid_number_of_pods_is_reported_and_counts_as_one(field: str, value: object) -> None:
    problems: list[str] = []
    spec = {"parallelism": 3, "completions": 4, field: value}
    assert pods_at_a_time(FieldReader(spec, "spec.", problems)) == 1
    assert [problem.partition(": ")[0] for problem in problems] == [f"spec.{field}"]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 1),
        ("0", None),
        (f"{MAX_PODS}", MAX_PODS),
        (f"{MAX_PODS + 1}", None),
        ("000000000007", 7),
        ("0000000000007", None),
        ("-1", None),
        ("²", None),
    ],
)
def test_a_number_of_pods(text: str, count: int | None) -> None:
    """A number has at most twelve digits, including leading zeros; the maximum is 64 Mi pods."""
    assert parse_pod_count(text) == count
    assert MAX_PODS == 64 * 1024 * 1024


@pytest.mark.parametrize(("least", "problems"), [("1", 0), ("2", 0), ("3", 1)])
def test_a_job_may_start_with_fewer_pods_than_it_has(least: str, problems: int) -> None:
    annotations = {MIN_PARALLELISM_ANNOTATION: least}
    job = FieldReader({"metadata": {"annotations": annotations}, "spec": {"parallelism": 2}}, "", [])
    assert read_job_pod_set(job).min_count == int(least)
    assert len(job.problems) == problems


@pytest.mark.parametrize("mode", ["NonIndexed", ""])
def test_pods_of_a_job_without_indexes_request_nothing(mode: str) -> None:
    assert read_job_pod_set(FieldReader({"spec": {"completionMode": mode}}, "", [])).topology_request is None


@pytest.mark.parametrize(("layers", "size"), [(1, 1), (2, MAX_PODS), (3, 2)])
def test_up_to_three_layers_of_slices(layers: int, size: int) -> None:
    constraints = [{"topology": f"level{layer}", "size": size} for layer in range(layers)]
    request = {"podsetSliceRequiredTopologyConstraints": constraints}
    assert topology_request({"slice_required_topology_constraints": json.dumps(constraints)}) == (request, [])
