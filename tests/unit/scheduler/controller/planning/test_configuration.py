"""The objects that configure the queue: only changes that affect decisions reach the planner."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.kube.resources import (
    CLUSTER_QUEUES,
    LIMIT_RANGES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.controller.planning.configuration import ConfigurationObjects
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.queue_annotations import BIND_ANNOTATION
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.declared_walltime import DEFAULT_RUN_ANNOTATION
from zonewise_scheduler.quota.api.pod_defaults import RuntimeClassDefaults

Json = dict[str, Any]


def observe(objects: ConfigurationObjects, resource: Resource, name: str, **fields: Any) -> bool:
    return objects.observe(ObjectKey(resource, "", name), {"metadata": {"name": name}, **fields})


def test_a_change_of_status_does_not_reach_the_planner() -> None:
    objects, feed = ConfigurationObjects(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS)
    observe(objects, CLUSTER_QUEUES, "q", spec={"namespaceSelector": {}})
    assert objects.feed(feed)
    assert list(feed.state.pending_queues) == ["q"]
    observe(objects, CLUSTER_QUEUES, "q", spec={"namespaceSelector": {}}, status={"pendingWorkloads": 3})
    assert not objects.feed(feed)
    observe(objects, CLUSTER_QUEUES, "q", spec={"namespaceSelector": {}, "stopPolicy": "Hold"})
    assert objects.feed(feed)
    objects.observe(ObjectKey(CLUSTER_QUEUES, "", "q"), None)
    assert objects.feed(feed)
    assert not feed.state.pending_queues


def test_labels_of_namespaces_and_flavors_are_tracked() -> None:
    objects, feed = ConfigurationObjects(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS)
    objects.observe(ObjectKey(NAMESPACES, "", "ns"), {"metadata": {"name": "ns", "labels": {"team": "a"}}})
    observe(objects, RESOURCE_FLAVORS, "f", spec={"nodeLabels": {"gpu": "h100"}})
    assert objects.feed(feed)
    assert feed.state.configuration.namespaces == {"ns": {"team": "a"}}
    assert objects.flavors["f"]["spec"]["nodeLabels"] == {"gpu": "h100"}


@pytest.mark.parametrize("name", [DEFAULT_RUN_ANNOTATION, BIND_ANNOTATION])
def test_only_fields_that_have_an_effect_configure_the_planner(name: str) -> None:
    objects, feed = ConfigurationObjects(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS)
    key = ObjectKey(CLUSTER_QUEUES, "", "q")

    def annotate(**annotations: str) -> bool:
        metadata = {"name": "q", "labels": {"owner": "a"}, "annotations": annotations}
        objects.observe(key, {"metadata": metadata, "spec": {"namespaceSelector": {}}})
        return objects.feed(feed)

    observe(objects, CLUSTER_QUEUES, "q", spec={"namespaceSelector": {}})
    assert objects.feed(feed)
    assert not annotate(note="edited")
    assert annotate(**{name: "60"})
    assert not annotate(**{name: "60", "note": "edited again"})


def test_a_namespace_changes_only_its_labels_in_the_planner() -> None:
    """Queues are not configured again. A namespace that is deleted has no labels afterwards."""
    objects, feed = ConfigurationObjects(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS)
    observe(objects, CLUSTER_QUEUES, "q", spec={"namespaceSelector": {}})
    observe(objects, NAMESPACES, "old")
    assert objects.feed(feed)
    assert not objects.feed_namespaces(feed)  # the configuration contains it
    observe(objects, NAMESPACES, "old", spec={"finalizers": []})
    assert not objects.feed_namespaces(feed)
    objects.observe(ObjectKey(NAMESPACES, "", "new"), {"metadata": {"name": "new", "labels": {"team": "a"}}})
    objects.observe(ObjectKey(NAMESPACES, "", "old"), None)
    assert not objects.feed(feed)
    assert objects.feed_namespaces(feed)
    assert feed.state.configuration.namespaces == {"new": {"team": "a"}}
    assert not objects.feed_namespaces(feed)


def test_priority_classes_are_stored_separately_and_do_not_reach_the_planner() -> None:
    objects, feed = ConfigurationObjects(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS)
    observe(objects, WORKLOAD_PRIORITY_CLASSES, "high", value=9)
    observe(objects, PRIORITY_CLASSES, "low", value=1, globalDefault=True)
    observe(objects, PRIORITY_CLASSES, "lower", value=-1, globalDefault=True)
    assert not objects.feed(feed)
    classes = objects.priority_classes
    assert (classes.workload, classes.pod, classes.default_pod_class) == (
        {"high": 9},
        {"low": 1, "lower": -1},
        "lower",
    )


def test_other_objects_configure_nothing() -> None:
    assert not observe(ConfigurationObjects(), WORKLOADS, "w")
    assert not ConfigurationObjects().written(ObjectKey(WORKLOADS, "", "w"), {"metadata": {"name": "w"}})


def flavor(version: int, uid: str = "u") -> Json:
    return {"metadata": {"name": "f", "uid": uid, "resourceVersion": str(version)}}


@pytest.mark.parametrize(
    ("observed", "response", "newest"),
    [
        (flavor(3), flavor(4), flavor(4)),
        (flavor(5), flavor(4), flavor(5)),
        (flavor(5, "new"), flavor(4), flavor(5, "new")),
        (flavor(5, "new"), flavor(6), flavor(5, "new")),
        (None, flavor(4), None),
    ],
    ids=["is newer", "was changed meanwhile", "was created anew", "is of another object", "was deleted meanwhile"],
)
def test_a_late_response_to_a_write_does_not_replace_a_newer_state(
    observed: Json | None, response: Json, newest: Json | None
) -> None:
    objects, key = ConfigurationObjects(), ObjectKey(RESOURCE_FLAVORS, "", "f")
    objects.observe(key, flavor(3))
    objects.observe(key, observed)
    assert objects.written(key, response)
    assert objects.find(*key) == newest


def test_pod_defaults_are_a_new_value_after_each_relevant_change() -> None:
    """The defaults do not reach the planner directly; they complete the pods of its Workloads."""
    objects, feed = ConfigurationObjects(), PlannerFeed(BackfillPolicy(), DEFAULT_SETTINGS)
    key = ObjectKey(LIMIT_RANGES, "ns", "r")
    limit_range: Json = {"metadata": {"namespace": "ns", "name": "r"}, "spec": {"limits": [{"type": "Pod"}]}}
    observe(objects, RUNTIME_CLASSES, "kata", overhead={"podFixed": {"cpu": "1"}})
    observe(objects, RUNTIME_CLASSES, "runc")
    objects.observe(key, limit_range)
    assert not objects.feed(feed)
    first = objects.pod_defaults
    assert first.runtime_classes == {"kata": RuntimeClassDefaults({"cpu": "1"}), "runc": RuntimeClassDefaults()}
    assert first.limit_ranges == {"ns": [limit_range]}
    objects.observe(key, {**limit_range, "metadata": {**limit_range["metadata"], "resourceVersion": "2"}})
    observe(objects, NAMESPACES, "other")
    assert objects.pod_defaults is first
    observe(objects, RUNTIME_CLASSES, "kata", scheduling={"nodeSelector": {"a": "b"}})
    objects.observe(key, None)
    second = objects.pod_defaults
    assert second.runtime_classes["kata"] == RuntimeClassDefaults(node_selector={"a": "b"})
    assert second.limit_ranges == {}
