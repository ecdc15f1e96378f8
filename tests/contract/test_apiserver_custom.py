"""Custom resources: definitions, schemas, status and generation. The embedded API server behaves like the real one."""

from __future__ import annotations

from typing import Any

import pytest

from support.apiserver import real_server
from support.clusters import (
    DEFINITIONS,
    GROUP,
    Cluster,
    causes_of,
    cluster,
    definition,
    embedded_server,
    kind_of,
    version_of,
    widget,
)
from support.waiting import eventually

__all__ = ["cluster", "embedded_server", "real_server"]


def test_a_definition_is_served(cluster: Cluster) -> None:
    plural = f"fresh{cluster.namespace[-5:]}"
    path = f"/apis/{GROUP}/v1/namespaces/{cluster.namespace}/{plural}"
    assert cluster.api.get(path).status == 404
    cluster.define(plural)
    found = cluster.api.get(f"{DEFINITIONS}/{plural}.{GROUP}").ok()
    conditions = {condition["type"]: condition["status"] for condition in found["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert found["status"]["storedVersions"] == ["v1"]
    assert found["spec"]["names"]["listKind"] == found["spec"]["names"]["kind"] + "List"
    cluster.api.delete(f"{DEFINITIONS}/{plural}.{GROUP}").ok()
    eventually(lambda: cluster.api.get(path).status == 404)
    eventually(lambda: cluster.api.get(f"{DEFINITIONS}/{plural}.{GROUP}").status == 404)


def test_a_definition_is_named_after_what_it_defines(cluster: Cluster) -> None:
    body = {**definition("things"), "metadata": {"name": "other"}}
    status = cluster.api.post(DEFINITIONS, body).refused(422, "Invalid")
    assert causes_of(status) == {("metadata.name", "FieldValueInvalid")}


def test_cluster_wide_resources_have_no_namespace(cluster: Cluster) -> None:
    path = cluster.define("globals", namespaced=False)
    name = cluster.namespace
    made = cluster.api.post(path, widget(name, "Global")).ok()
    assert "namespace" not in made["metadata"]
    assert cluster.api.get(f"{path}/{name}").ok() == made
    cluster.api.delete(f"{path}/{name}").ok()


def test_names_of_a_group_are_qualified(cluster: Cluster) -> None:
    cluster.define()
    status = cluster.api.get(f"{cluster.widgets}/none").refused(404, "NotFound")
    assert status["message"] == f'widgets.{GROUP} "none" not found'
    assert status["details"] == {"name": "none", "group": GROUP, "kind": "widgets"}


def test_defaults_are_filled_in_and_unknown_fields_dropped(cluster: Cluster) -> None:
    cluster.define()
    body = {**widget("one", unheard=1, free={"kept": {"a": 1}}, map={"any": "key"}), "unheard": 1}
    made = cluster.api.post(cluster.widgets, body).ok()
    assert made["spec"] == {"size": 1, "mode": "a", "free": {"kept": {"a": 1}}, "map": {"any": "key"}}
    assert "unheard" not in made


def test_unknown_fields_are_rejected_under_strict_validation(cluster: Cluster) -> None:
    cluster.define()
    body = widget("one", unheard=1)
    status = cluster.api.post(cluster.widgets, body, fieldValidation="Strict").refused(400, "BadRequest")
    assert status["message"].endswith('strict decoding error: unknown field "spec.unheard"')


def test_null_counts_as_absent_unless_nullable(cluster: Cluster) -> None:
    cluster.define()
    made = cluster.api.post(cluster.widgets, widget("one", mode=None, word="a", none=None)).ok()
    assert made["spec"] == {"size": 1, "mode": "a", "word": "a", "none": None}


INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"size": "1"}, "spec.size", "FieldValueTypeInvalid"),
    ({"size": True}, "spec.size", "FieldValueTypeInvalid"),
    ({"size": 0}, "spec.size", "FieldValueInvalid"),
    ({"size": 10}, "spec.size", "FieldValueInvalid"),
    ({"size": None}, "spec.size", "FieldValueRequired"),
    ({"mode": "c"}, "spec.mode", "FieldValueNotSupported"),
    ({"word": "A"}, "spec.word", "FieldValueInvalid"),
    ({"word": "a\n"}, "spec.word", "FieldValueInvalid"),
    ({"word": "aaaaa"}, "spec.word", "FieldValueTooLong"),
    ({"word": 1}, "spec.word", "FieldValueTypeInvalid"),
    ({"port": [1]}, "spec.port", "FieldValueTypeInvalid"),
    ({"port": True}, "spec.port", "FieldValueTypeInvalid"),
    ({"keyed": [{"v": "1"}]}, "spec.keyed[0].k", "FieldValueRequired"),
    ({"keyed": [{"k": "a"}, {"k": "a"}]}, "spec.keyed[1]", "FieldValueDuplicate"),
    ({"keyed": [{"k": str(n)} for n in range(6)]}, "spec.keyed", "FieldValueTooMany"),
    ({"set": ["a", "b", "a"]}, "spec.set[2]", "FieldValueDuplicate"),
    ({"atomic": {}}, "spec.atomic", "FieldValueTypeInvalid"),
    ({"atomic": [1]}, "spec.atomic[0]", "FieldValueTypeInvalid"),
    ({"map": {"a": 1}}, "spec.map.a", "FieldValueTypeInvalid"),
    ({"map": []}, "spec.map", "FieldValueTypeInvalid"),
    ({"time": "yesterday"}, "spec.time", "FieldValueTypeInvalid"),
]


@pytest.mark.parametrize(("spec", "field", "reason"), INVALID)
def test_values_that_violate_the_schema_are_rejected(
    cluster: Cluster, spec: dict[str, Any], field: str, reason: str
) -> None:
    cluster.define()
    status = cluster.api.post(cluster.widgets, widget("one", **spec)).refused(422, "Invalid")
    assert (field, reason) in causes_of(status)
    assert status["details"]["kind"] == "Widget"
    assert status["details"]["group"] == GROUP


@pytest.mark.parametrize(
    "spec",
    [
        {"size": 1.0},
        {"port": 80},
        {"port": "http"},
        {"time": "2026-01-01T00:00:00Z"},
        {"time": "2026-01-01T00:00:00.123456+02:00"},
        {"free": [1, {"a": None}]},
        {"free": 1.5},
        {"atomic": [{"k": "a"}, {"k": "a"}]},
        {"keyed": []},
    ],
)
def test_values_that_match_the_schema_are_accepted(cluster: Cluster, spec: dict[str, Any]) -> None:
    cluster.define()
    cluster.api.post(cluster.widgets, widget("one", **spec)).ok()


def test_every_error_is_reported(cluster: Cluster) -> None:
    cluster.define()
    status = cluster.api.post(cluster.widgets, widget("one", size=0, mode="c", word="A")).refused(422, "Invalid")
    assert {field for field, _ in causes_of(status)} == {"spec.size", "spec.mode", "spec.word"}
    assert status["message"].startswith(f'Widget.{GROUP} "one" is invalid: [')


def test_required_fields(cluster: Cluster) -> None:
    cluster.define()
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "one"}}
    status = cluster.api.post(cluster.widgets, body).refused(422, "Invalid")
    assert causes_of(status) == {("spec", "FieldValueRequired")}


def test_changes_are_validated_too(cluster: Cluster) -> None:
    cluster.define()
    first = cluster.api.post(cluster.widgets, widget("one")).ok()
    cluster.api.patch(f"{cluster.widgets}/one", {"spec": {"size": 10}}).refused(422, "Invalid")
    cluster.api.patch(f"{cluster.widgets}/one/status", {"status": {"count": "x"}}).refused(422, "Invalid")
    assert cluster.api.get(f"{cluster.widgets}/one").ok() == first


@pytest.mark.parametrize(
    ("change", "code"),
    [({"kind": "Gadget"}, 422), ({"apiVersion": "v1"}, 400), ({"kind": None}, 400), ({"apiVersion": None}, 400)],
)
def test_a_custom_resource_needs_its_kind(cluster: Cluster, change: dict[str, Any], code: int) -> None:
    cluster.define()
    body = {name: value for name, value in {**widget("one"), **change}.items() if value is not None}
    assert cluster.api.post(cluster.widgets, body).status == code


def test_a_patch_cannot_change_the_kind(cluster: Cluster) -> None:
    cluster.define()
    cluster.api.post(cluster.widgets, widget("one")).ok()
    cluster.api.patch(f"{cluster.widgets}/one", {"kind": "Gadget"}).refused(422, "Invalid")


def test_a_replacement_needs_a_version(cluster: Cluster) -> None:
    cluster.define()
    cluster.api.post(cluster.widgets, widget("one")).ok()
    status = cluster.api.put(f"{cluster.widgets}/one", widget("one", size=2)).refused(422, "Invalid")
    assert causes_of(status) == {("metadata.resourceVersion", "FieldValueInvalid")}


# --- status and generation


def test_a_new_object_has_no_status(cluster: Cluster) -> None:
    cluster.define()
    made = cluster.api.post(cluster.widgets, {**widget("one"), "status": {"count": 1}}).ok()
    assert "status" not in made


def test_spec_and_status_are_written_apart(cluster: Cluster) -> None:
    cluster.define()
    path = f"{cluster.widgets}/one"
    cluster.api.post(cluster.widgets, widget("one")).ok()
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 5}, "status": {"count": 1}}
    made = cluster.api.patch(f"{path}/status", patch).ok()
    assert made["status"] == {"count": 1}
    assert made["spec"]["size"] == 1
    assert "labels" not in made["metadata"]
    made = cluster.api.patch(path, {**patch, "status": {"count": 2}}).ok()
    assert made["status"] == {"count": 1}
    assert made["spec"]["size"] == 5
    made = cluster.api.put(f"{path}/status", {**made, "spec": {"size": 7}, "status": {"count": 3}}).ok()
    assert (made["spec"]["size"], made["status"]) == (5, {"count": 3})
    assert cluster.api.get(f"{path}/status").ok() == made


def test_generation_counts_changes_of_the_spec(cluster: Cluster) -> None:
    cluster.define()
    path = f"{cluster.widgets}/one"

    def generation(body: dict[str, Any], sub: str = "") -> int:
        return cluster.api.patch(f"{path}{sub}", body).ok()["metadata"]["generation"]

    assert cluster.api.post(cluster.widgets, widget("one")).ok()["metadata"]["generation"] == 1
    assert generation({"metadata": {"labels": {"a": "b"}}}) == 1
    assert generation({"status": {"count": 1}}, "/status") == 1
    assert generation({"spec": {"size": 1}}) == 1
    assert generation({"spec": {"size": 2}}) == 2
    assert generation({"metadata": {"generation": 9}, "spec": {"size": 3}}) == 3


def test_deletion_counts_in_generation(cluster: Cluster) -> None:
    cluster.define()
    body = widget("one")
    body["metadata"]["finalizers"] = ["example.com/a"]
    cluster.api.post(cluster.widgets, body).ok()
    held = cluster.api.delete(f"{cluster.widgets}/one").ok()
    assert held["metadata"]["generation"] == 2
    cluster.api.patch(f"{cluster.widgets}/one", {"metadata": {"finalizers": None}}).ok()


def test_without_the_subresource_status_is_an_ordinary_field(cluster: Cluster) -> None:
    path = cluster.define("plains", status=False)
    made = cluster.api.post(path, {**widget("one", "Plain"), "status": {"count": 1}}).ok()
    assert made["status"] == {"count": 1}
    made = cluster.api.patch(f"{path}/one", {"status": {"count": 2}}).ok()
    assert made["status"] == {"count": 2}
    assert made["metadata"]["generation"] == 2
    assert cluster.api.get(f"{path}/one/status").status == 404


def test_objects_are_deleted_with_their_definition(cluster: Cluster) -> None:
    plural = f"gone{cluster.namespace[-5:]}"
    path = cluster.define(plural)
    kind = kind_of(plural)
    first = cluster.api.post(path, widget("one", kind)).ok()
    cluster.api.delete(f"{DEFINITIONS}/{plural}.{GROUP}").ok()
    eventually(lambda: cluster.api.get(f"{DEFINITIONS}/{plural}.{GROUP}").status == 404)
    eventually(lambda: cluster.api.get(path).status == 404)
    cluster.define(plural)
    assert cluster.api.get(path).ok()["items"] == []
    second = cluster.api.post(path, widget("one", kind)).ok()
    assert version_of(second) > version_of(first)
