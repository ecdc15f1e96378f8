"""The setting managedJobsNamespaceSelector: the namespaces whose jobs are queued."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission_reviews import VALIDATE_PATH, defaulted, job, pod, response_of, review, rules
from support.controller_stories import ControllerStory
from support.model_cluster import NAMESPACE, ModelCluster
from zonewise_common.kube.resources import NAMESPACES
from zonewise_scheduler.controller.controller import ControllerOptions
from zonewise_scheduler.controller.managed_namespaces import all_but, is_managed, parse_managed_namespaces
from zonewise_scheduler.controller.settings import read_settings
from zonewise_scheduler.controller.types import ObjectKey

TEAMS = parse_managed_namespaces({"matchLabels": {"team": "a"}})


def not_observed(_resource: object, _namespace: str, _name: str) -> None:
    """Return no Namespace."""


def managed_story(*, suspend: bool) -> tuple[ControllerStory, ObjectKey]:
    """Return a story whose only Job is in a namespace without the label of managed ones."""
    story = ControllerStory(ModelCluster(), options=ControllerOptions(managed_namespaces=TEAMS))
    key = story.cluster.submit("job", 1)
    story.cluster.change(key, {"spec": {"suspend": suspend}})
    story.may_exceed_quota = True
    story.settle()
    return story, key


def test_a_job_of_another_namespace_is_neither_stopped_nor_queued() -> None:
    for suspend in (True, False):
        story, key = managed_story(suspend=suspend)
        assert story.cluster.get(key)["spec"]["suspend"] is suspend
        assert not story.cluster.workloads()


def test_jobs_follow_the_labels_of_their_namespace() -> None:
    """A job that has a Workload remains in its queue."""
    story, key = managed_story(suspend=True)
    namespace = ObjectKey(NAMESPACES, "", NAMESPACE)
    story.cluster.change(namespace, {"metadata": {"labels": {"team": "a"}}})
    story.settle()
    assert not story.cluster.get(key)["spec"]["suspend"]
    story.cluster.change(namespace, {"metadata": {"labels": None}})
    story.cluster.complete(key)
    story.settle()
    [workload] = story.cluster.workloads()
    assert "Finished" in {entry["type"] for entry in workload["status"]["conditions"]}


@pytest.mark.parametrize("made", [job("q"), pod("q", {"kueue.x-k8s.io/pod-group-total-count": "two"})])
def test_the_webhooks_neither_change_nor_check_objects_of_another_namespace(made: Any) -> None:
    reviewed = review(made)
    reviewed["request"]["namespace"] = "unmanaged"
    assert response_of("/default", reviewed, rules()) == {"uid": "u-1", "allowed": True}
    assert response_of(VALIDATE_PATH, reviewed, rules())["allowed"]
    assert defaulted(made, rules()) != made


def test_by_default_all_namespaces_but_one_are_managed() -> None:
    """The namespace of the controller may contain jobs."""
    requirements = read_settings({"namespace": "own"}, {}, None).managed_namespaces
    managed = [name for name in ("kube-system", "own", "team") if is_managed(name, requirements, not_observed)]
    assert managed == ["own", "team"]
    assert requirements == all_but("kube-system")


def test_the_setting_is_a_label_selector() -> None:
    text = "managedJobsNamespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}"
    requirements = read_settings({}, {}, text).managed_namespaces
    labels: Any = {"a": {"team": "a"}, "b": None}

    def find(_resource: object, _namespace: str, name: str) -> Any:
        return {"metadata": {"labels": labels[name]}} if name in labels else None

    assert [name for name in ("a", "b", "unknown") if is_managed(name, requirements, find)] == ["a"]


@pytest.mark.parametrize("value", [1, {"matchLabel": {}}, {"matchExpressions": [{"key": "a", "operator": "Is"}]}])
def test_an_invalid_selector_is_an_error(value: object) -> None:
    with pytest.raises(ValueError, match="managedJobsNamespaceSelector"):
        parse_managed_namespaces(value)
