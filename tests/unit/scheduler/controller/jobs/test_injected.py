"""What a start added is removed exactly, without the help of the Workload."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controller_jobs import pod_set_infos, templates
from support.json_edits import without_absent_fields
from zonewise_scheduler.controller.jobs.injected import (
    INJECTED_ANNOTATION,
    injected_annotation,
    is_injected,
    without_injected,
)
from zonewise_scheduler.controller.jobs.pod_set_info import merge_pod_set_info
from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

Json = dict[str, Any]


def annotated(value: str) -> Json:
    return {"metadata": {"annotations": {INJECTED_ANNOTATION: value}}}


@given(templates(), st.data(), st.booleans())
def test_templates_are_restored_to_their_state_before_the_start(
    template: Json, data: st.DataObject, starts_again: bool
) -> None:
    original = PodSetManifest("main", 5, template)
    info = data.draw(pod_set_infos(data.draw(st.integers(1, 5))))
    job = annotated(injected_annotation([original], [info]))
    started = merge_pod_set_info(template, info)
    if starts_again:
        started = merge_pod_set_info(started, info)
    (restored,) = without_injected(job, [PodSetManifest("main", info.pods, started)])
    assert without_absent_fields(restored.template) == without_absent_fields(template)
    assert restored.pods == 5
    assert is_injected(job)


def test_later_changes_by_a_user_are_kept() -> None:
    pod_set = PodSetManifest("main", 1, {"spec": {"nodeSelector": {"a": "own", "b": "1"}}})
    job = annotated('{"main":{"nodeSelector":{"a":"1","b":"1"}}}')
    (restored,) = without_injected(job, [pod_set])
    assert restored.template["spec"]["nodeSelector"] == {"a": "own"}


@pytest.mark.parametrize(
    "value", ["", "{", "[]", "[" * 100_000, '{"main":[]}', '{"main":{"labels":5,"tolerations":{},"count":"x"}}']
)
def test_an_unreadable_annotation_is_ignored(value: str) -> None:
    pod_set = PodSetManifest("main", 2, {"spec": {"nodeSelector": {"a": "1"}, "tolerations": [{"key": "k"}]}})
    (restored,) = without_injected(annotated(value), [pod_set])
    assert without_absent_fields(restored.template) == pod_set.template
    assert restored.pods == 2
