"""What a start adds to a template, and how a stop removes it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controller_jobs import pod_set_infos, templates
from support.json_edits import without_absent_fields
from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.jobs.interface import PodSetInfo, StartConflict
from zonewise_scheduler.controller.jobs.pod_set_info import merge_pod_set_info, restore_template

Json = dict[str, Any]


@given(templates(), st.data())
def test_merging_and_restoring_a_template_gives_the_original(template: Json, data: st.DataObject) -> None:
    before = copy.deepcopy(template)
    info = data.draw(pod_set_infos())
    merged = merge_pod_set_info(template, info)
    assert template == before
    assert merge_pod_set_info(merged, info) == merged
    assert without_absent_fields(restore_template(merged, template)) == without_absent_fields(template)
    assert merged["spec"]["containers"] is template["spec"]["containers"]


@given(templates(), st.data())
def test_a_merge_adds_everything_and_keeps_what_the_job_has(template: Json, data: st.DataObject) -> None:
    info = data.draw(pod_set_infos())
    merged = merge_pod_set_info(template, info)
    for owner, field, added in (
        ("metadata", "labels", info.labels),
        ("metadata", "annotations", info.annotations),
        ("spec", "nodeSelector", info.node_selector),
    ):
        assert merged[owner].get(field, {}) == {**template.get(owner, {}).get(field, {}), **added}
    tolerations = template["spec"].get("tolerations", [])
    merged_tolerations = merged["spec"].get("tolerations", [])
    assert merged_tolerations[: len(tolerations)] == tolerations
    assert all(toleration in merged_tolerations for toleration in info.tolerations)
    assert {gate["name"] for gate in merged["spec"].get("schedulingGates", ())} >= set(info.scheduling_gates)


@pytest.mark.parametrize(
    ("template", "info", "message"),
    [
        (
            {"spec": {"nodeSelector": {"zone": "a"}}},
            PodSetInfo("main", 1, node_selector={"zone": "b"}),
            "template.spec.nodeSelector.zone: the job sets 'a', but the admission sets 'b'",
        ),
        (
            {"metadata": {"labels": {"l": ""}}},
            PodSetInfo("main", 1, labels={"l": "1"}),
            "template.metadata.labels.l: the job sets '', but the admission sets '1'",
        ),
        (
            {"metadata": {"annotations": {"n": "2"}}},
            PodSetInfo("main", 1, annotations={"n": "1"}),
            "template.metadata.annotations.n: the job sets '2', but the admission sets '1'",
        ),
    ],
)
def test_a_key_with_another_value_is_a_conflict(template: Json, info: PodSetInfo, message: str) -> None:
    with pytest.raises(StartConflict) as conflict:
        merge_pod_set_info(template, info)
    assert str(conflict.value) == message


def test_labels_of_controllers_are_kept_when_a_template_is_restored() -> None:
    template = {"metadata": {"labels": {"job-name": "j", "added": "x"}}, "spec": {}}
    original = {"metadata": {"labels": {"mine": "1"}}}
    restored = restore_template(template, original, keep_labels=("job-name", "controller-uid"))
    assert restored["metadata"]["labels"] == {"mine": "1", "job-name": "j"}


def test_an_invalid_template_is_named() -> None:
    with pytest.raises(FieldError, match=r"template\.spec\.tolerations: not a list: 'all'"):
        merge_pod_set_info({"spec": {"tolerations": "all"}}, PodSetInfo("main", 1))
