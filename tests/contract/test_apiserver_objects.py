"""Creating, reading, replacing and deleting objects: the embedded API server behaves like the real one."""

from __future__ import annotations

import re

import pytest

from support.apiserver import real_server
from support.clusters import (
    Cluster,
    causes_of,
    cluster,
    config_map,
    embedded_server,
    version_of,
    widget,
)

__all__ = ["cluster", "embedded_server", "real_server"]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


# --- create


def test_the_server_names_and_dates_what_is_created(cluster: Cluster) -> None:
    made = cluster.api.post(cluster.config_maps, config_map("one", a="1"))
    assert made.status == 201
    metadata = made.ok()["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert _TIME.fullmatch(metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    assert metadata["namespace"] == cluster.namespace
    assert "generation" not in metadata
    assert cluster.api.get(f"{cluster.config_maps}/one").ok() == made.body


def test_a_client_cannot_choose_what_the_server_sets(cluster: Cluster) -> None:
    chosen = {"name": "one", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z"}
    metadata = cluster.api.post(cluster.config_maps, {"metadata": chosen}).ok()["metadata"]
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2000")


def test_kind_and_version_of_a_built_in_kind_may_be_left_out(cluster: Cluster) -> None:
    made = cluster.api.post(cluster.config_maps, {"metadata": {"name": "one"}}).ok()
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")


def test_generate_name_makes_names(cluster: Cluster) -> None:
    names = [
        cluster.api.post(cluster.config_maps, {"metadata": {"generateName": "some-"}}).ok()["metadata"]["name"]
        for _ in range(3)
    ]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"some-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


def test_a_name_can_be_used_once(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one")).ok()
    status = cluster.api.post(cluster.config_maps, config_map("one")).refused(409, "AlreadyExists")
    assert status["message"] == 'configmaps "one" already exists'
    assert status["details"] == {"name": "one", "kind": "configmaps"}


def test_a_bad_name_is_rejected(cluster: Cluster) -> None:
    status = cluster.api.post(cluster.config_maps, config_map("No_Name")).refused(422, "Invalid")
    assert causes_of(status) == {("metadata.name", "FieldValueInvalid")}
    assert status["details"]["kind"] == "ConfigMap"


def test_a_missing_name_is_rejected(cluster: Cluster) -> None:
    status = cluster.api.post(cluster.config_maps, {"metadata": {}}).refused(422, "Invalid")
    assert causes_of(status) == {("metadata.name", "FieldValueRequired")}


@pytest.mark.parametrize(("key", "value"), [("bad key", "x"), ("ok", "no spaces"), ("a/b/c", "x"), ("ok", "x" * 64)])
def test_bad_labels_are_rejected(cluster: Cluster, key: str, value: str) -> None:
    body = {"metadata": {"name": "one", "labels": {key: value}}}
    status = cluster.api.post(cluster.config_maps, body).refused(422, "Invalid")
    assert causes_of(status) == {("metadata.labels", "FieldValueInvalid")}


def test_labels_are_strings(cluster: Cluster) -> None:
    body = {"metadata": {"name": "one", "labels": {"a": 1}}}
    cluster.api.post(cluster.config_maps, body).refused(400, "BadRequest")


def test_a_new_object_has_no_version_yet(cluster: Cluster) -> None:
    """Unexpectedly, a create request with a resourceVersion gets status 500."""
    body = {"metadata": {"name": "one", "resourceVersion": "1"}}
    made = cluster.api.post(cluster.config_maps, body)
    assert made.status == 500
    assert made.body["message"] == "resourceVersion should not be set on objects to be created"


def test_the_namespace_must_match_the_url(cluster: Cluster) -> None:
    body = {"metadata": {"name": "one", "namespace": "other"}}
    status = cluster.api.post(cluster.config_maps, body).refused(400, "BadRequest")
    assert "does not match the namespace sent on the request" in status["message"]


def test_the_namespace_must_exist(cluster: Cluster) -> None:
    status = cluster.api.post("/api/v1/namespaces/nowhere/configmaps", config_map("one")).refused(404, "NotFound")
    assert status["details"] == {"name": "nowhere", "kind": "namespaces"}


def test_another_kind_is_rejected(cluster: Cluster) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}}
    status = cluster.api.post(cluster.config_maps, body).refused(400, "BadRequest")
    assert status["message"].startswith('Pod in version "v1" cannot be handled as a ConfigMap')


@pytest.mark.parametrize("body", [b"{nope", b"[]", b'"text"', b""])
def test_a_body_without_an_object_is_rejected(cluster: Cluster, body: bytes) -> None:
    assert cluster.api.request("POST", cluster.config_maps, body).status in {400, 422}


def test_another_media_type_is_rejected(cluster: Cluster) -> None:
    cluster.api.request("POST", cluster.config_maps, b"{}", "text/plain").refused(415, "UnsupportedMediaType")


def test_yaml_is_accepted(cluster: Cluster) -> None:
    made = cluster.api.request("POST", cluster.config_maps, b"metadata: {name: one}\ndata: {a: b}", "application/yaml")
    assert made.ok()["data"] == {"a": "b"}


def test_dry_run_stores_nothing(cluster: Cluster) -> None:
    made = cluster.api.post(cluster.config_maps, config_map("one", a="1"), dryRun="All")
    assert made.status == 201
    assert made.ok()["metadata"]["uid"]
    assert "resourceVersion" not in made.body["metadata"]
    cluster.api.get(f"{cluster.config_maps}/one").refused(404, "NotFound")


def test_dry_run_checks_as_a_write_does(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one")).ok()
    cluster.api.post(cluster.config_maps, config_map("one"), dryRun="All").refused(409, "AlreadyExists")
    cluster.api.post(cluster.config_maps, config_map("Bad_"), dryRun="All").refused(422, "Invalid")


def test_dry_run_is_all_or_nothing(cluster: Cluster) -> None:
    status = cluster.api.post(cluster.config_maps, config_map("one"), dryRun="Some").refused(422, "Invalid")
    assert causes_of(status) == {("dryRun", "FieldValueNotSupported")}


# --- read


def test_an_absent_object_is_not_found(cluster: Cluster) -> None:
    status = cluster.api.get(f"{cluster.config_maps}/none").refused(404, "NotFound")
    assert status["message"] == 'configmaps "none" not found'
    assert status["details"] == {"name": "none", "kind": "configmaps"}


def test_a_resource_that_is_not_served_is_not_found(cluster: Cluster) -> None:
    cluster.api.get("/api/v1/nothings").refused(404, "NotFound")
    answer = cluster.api.get("/apis/unserved.example.com/v1/things")
    assert (answer.status, answer.body) == (404, "404 page not found\n")


def test_a_collection_cannot_be_put(cluster: Cluster) -> None:
    cluster.api.request("PUT", cluster.config_maps, {}).refused(405, "MethodNotAllowed")


# --- replace


def test_a_replacement_replaces(cluster: Cluster) -> None:
    first = cluster.api.post(cluster.config_maps, config_map("one", {"old": "1"}, a="1")).ok()
    second = cluster.api.put(f"{cluster.config_maps}/one", config_map("one", b="2")).ok()
    assert second["data"] == {"b": "2"}
    assert "labels" not in second["metadata"]
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["metadata"]["namespace"] == cluster.namespace
    assert second["metadata"]["creationTimestamp"] == first["metadata"]["creationTimestamp"]
    assert version_of(second) > version_of(first)


def test_a_stale_version_conflicts(cluster: Cluster) -> None:
    first = cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
    second = cluster.api.put(f"{cluster.config_maps}/one", {**first, "data": {"a": "2"}}).ok()
    status = cluster.api.put(f"{cluster.config_maps}/one", {**first, "data": {"a": "3"}}).refused(409, "Conflict")
    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "one": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert status["details"] == {"name": "one", "kind": "configmaps"}
    assert cluster.api.get(f"{cluster.config_maps}/one").ok() == second


def test_a_write_without_a_change_keeps_the_version(cluster: Cluster) -> None:
    first = cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
    assert cluster.api.put(f"{cluster.config_maps}/one", first).ok() == first
    assert cluster.api.patch(f"{cluster.config_maps}/one", {"data": {"a": "1"}}).ok() == first
    assert cluster.api.patch(f"{cluster.config_maps}/one", {}).ok() == first


def test_another_uid_conflicts(cluster: Cluster) -> None:
    """A replacement with the UID of a deleted object of the same name does not replace this one."""
    cluster.api.post(cluster.config_maps, config_map("one")).ok()
    body = {"metadata": {"name": "one", "uid": "00000000-0000-0000-0000-000000000000"}}
    status = cluster.api.put(f"{cluster.config_maps}/one", body).refused(409, "Conflict")
    assert "Precondition failed: UID in precondition" in status["message"]


def test_names_match_the_url(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one")).ok()
    status = cluster.api.put(f"{cluster.config_maps}/one", config_map("two")).refused(400, "BadRequest")
    assert status["message"] == "the name of the object (two) does not match the name on the URL (one)"
    cluster.api.patch(f"{cluster.config_maps}/one", {"metadata": {"name": "two"}}).refused(400, "BadRequest")


def test_an_absent_object_cannot_be_replaced(cluster: Cluster) -> None:
    cluster.api.put(f"{cluster.config_maps}/none", config_map("none")).refused(404, "NotFound")


@pytest.mark.parametrize("field", ["creationTimestamp", "generation"])
def test_clients_cannot_change_fields_that_the_server_sets(cluster: Cluster, field: str) -> None:
    first = cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
    value = 5 if field == "generation" else "2000-01-01T00:00:00Z"
    second = cluster.api.patch(f"{cluster.config_maps}/one", {"metadata": {field: value}}).ok()
    assert second["metadata"].get(field) == first["metadata"].get(field)


def test_only_the_server_sets_the_deletion_timestamp(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one")).ok()
    patch = {"metadata": {"deletionTimestamp": "2000-01-01T00:00:00Z"}}
    status = cluster.api.patch(f"{cluster.config_maps}/one", patch).refused(422, "Invalid")
    assert causes_of(status) == {("metadata.deletionTimestamp", "FieldValueInvalid")}


def test_a_uid_never_changes(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one")).ok()
    status = cluster.api.patch(f"{cluster.config_maps}/one", {"metadata": {"uid": "other"}}).refused(422, "Invalid")
    assert causes_of(status) == {("metadata.uid", "FieldValueInvalid")}


def test_a_dry_replacement_changes_nothing(cluster: Cluster) -> None:
    first = cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
    told = cluster.api.put(f"{cluster.config_maps}/one", config_map("one", a="2"), dryRun="All").ok()
    assert told["data"] == {"a": "2"}
    assert cluster.api.get(f"{cluster.config_maps}/one").ok() == first


def test_data_of_an_immutable_config_map_cannot_change(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, {**config_map("one", a="1"), "immutable": True}).ok()
    cluster.api.patch(f"{cluster.config_maps}/one", {"data": {"a": "2"}}).refused(422, "Invalid")
    cluster.api.patch(f"{cluster.config_maps}/one", {"metadata": {"labels": {"a": "b"}}}).ok()


def test_secrets_are_encoded(cluster: Cluster) -> None:
    body = {"metadata": {"name": "one"}, "stringData": {"a": "b"}}
    made = cluster.api.post(f"{cluster.core}/secrets", body).ok()
    assert made["data"] == {"a": "Yg=="}
    assert made["type"] == "Opaque"
    assert "stringData" not in made


def test_a_lease_is_replaced_only_with_its_version(cluster: Cluster) -> None:
    """The server rejects a write without a version, or with an old one. Leader election depends on this."""
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    first = cluster.api.post(cluster.leases, {"metadata": {"name": "one"}, "spec": spec}).ok()
    assert first["spec"] == spec
    status = cluster.api.put(f"{cluster.leases}/one", {"metadata": {"name": "one"}, "spec": spec})
    assert causes_of(status.refused(422, "Invalid")) == {("metadata.resourceVersion", "FieldValueInvalid")}
    taken = cluster.api.put(f"{cluster.leases}/one", {**first, "spec": {**spec, "holderIdentity": "b"}}).ok()
    assert taken["spec"]["holderIdentity"] == "b"
    cluster.api.put(f"{cluster.leases}/one", {**first, "spec": {**spec, "holderIdentity": "c"}}).refused(
        409, "Conflict"
    )


# --- delete


def test_a_deletion_names_the_deleted_object(cluster: Cluster) -> None:
    uid = cluster.api.post(cluster.config_maps, config_map("one")).ok()["metadata"]["uid"]
    status = cluster.api.delete(f"{cluster.config_maps}/one").ok()
    assert status["status"] == "Success"
    assert status["details"] == {"name": "one", "kind": "configmaps", "uid": uid}
    cluster.api.get(f"{cluster.config_maps}/one").refused(404, "NotFound")
    cluster.api.delete(f"{cluster.config_maps}/one").refused(404, "NotFound")


def test_preconditions_of_a_deletion(cluster: Cluster) -> None:
    """A deletion with a UID or version deletes exactly that object, or nothing."""
    first = cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()["metadata"]
    path = f"{cluster.config_maps}/one"
    status = cluster.api.delete(path, {"preconditions": {"uid": "other"}}).refused(409, "Conflict")
    assert "the UID in the precondition (other) does not match" in status["message"]
    cluster.api.delete(path, {"preconditions": {"resourceVersion": "1"}}).refused(409, "Conflict")
    cluster.api.get(path).ok()
    wanted = {"uid": first["uid"], "resourceVersion": first["resourceVersion"]}
    cluster.api.delete(path, {"preconditions": wanted}).ok()
    cluster.api.get(path).refused(404, "NotFound")


def test_finalizers_delay_a_deletion(cluster: Cluster) -> None:
    body = {"metadata": {"name": "one", "finalizers": ["example.com/a", "example.com/b"]}}
    first = cluster.api.post(cluster.config_maps, body).ok()
    path = f"{cluster.config_maps}/one"
    held = cluster.api.delete(path).ok()
    assert _TIME.fullmatch(held["metadata"]["deletionTimestamp"])
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert version_of(held) > version_of(first)
    assert cluster.api.delete(path).ok() == held
    left = cluster.api.patch(path, {"metadata": {"finalizers": ["example.com/b"]}}).ok()
    assert left["metadata"]["deletionTimestamp"] == held["metadata"]["deletionTimestamp"]
    cluster.api.patch(path, {"metadata": {"finalizers": None}}).ok()
    cluster.api.get(path).refused(404, "NotFound")


def test_an_object_in_deletion_gets_no_new_finalizers(cluster: Cluster) -> None:
    body = {"metadata": {"name": "one", "finalizers": ["example.com/a"]}}
    cluster.api.post(cluster.config_maps, body).ok()
    path = f"{cluster.config_maps}/one"
    cluster.api.delete(path).ok()
    patch = {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}
    status = cluster.api.patch(path, patch).refused(422, "Invalid")
    assert causes_of(status) == {("metadata.finalizers", "FieldValueForbidden")}
    cluster.api.patch(path, {"metadata": {"finalizers": None}}).ok()


def test_a_dry_deletion_deletes_nothing(cluster: Cluster) -> None:
    first = cluster.api.post(cluster.config_maps, config_map("one")).ok()
    cluster.api.delete(f"{cluster.config_maps}/one", dryRun="All").ok()
    assert cluster.api.get(f"{cluster.config_maps}/one").ok() == first


def test_a_collection_is_deleted_by_selector(cluster: Cluster) -> None:
    for name, colour in (("one", "red"), ("two", "red"), ("three", "blue")):
        cluster.api.post(cluster.config_maps, config_map(name, {"colour": colour})).ok()
    cluster.api.delete(cluster.config_maps, labelSelector="colour=red").ok()
    left = cluster.api.get(cluster.config_maps, labelSelector="colour").ok()["items"]
    assert [obj["metadata"]["name"] for obj in left] == ["three"]


def test_a_new_object_with_an_old_name_has_a_new_identity(cluster: Cluster) -> None:
    first = cluster.api.post(cluster.config_maps, config_map("one")).ok()
    cluster.api.delete(f"{cluster.config_maps}/one").ok()
    second = cluster.api.post(cluster.config_maps, config_map("one")).ok()
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert version_of(second) > version_of(first)


def test_versions_grow_over_all_resources(cluster: Cluster) -> None:
    """All resources share one counter, so a later write always has a greater version."""
    cluster.define()
    made = [
        cluster.api.post(cluster.config_maps, config_map("one")).ok(),
        cluster.api.post(cluster.widgets, widget("one")).ok(),
        cluster.api.post(cluster.leases, {"metadata": {"name": "one"}}).ok(),
        cluster.api.patch(f"{cluster.config_maps}/one", {"data": {"a": "b"}}).ok(),
    ]
    versions = [version_of(obj) for obj in made]
    assert versions == sorted(set(versions))


def test_a_namespace_is_labelled_with_its_name(cluster: Cluster) -> None:
    found = cluster.api.get(f"/api/v1/namespaces/{cluster.namespace}").ok()
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": cluster.namespace}
    assert found["status"] == {"phase": "Active"}


def test_a_namespace_that_is_deleted_is_terminating(cluster: Cluster) -> None:
    body = {"metadata": {"name": "held", "finalizers": ["example.com/a"]}}
    cluster.api.post(cluster.config_maps, body).ok()
    told = cluster.api.delete(f"/api/v1/namespaces/{cluster.namespace}").ok()
    assert told["status"]["phase"] == "Terminating"
    status = cluster.api.post(cluster.config_maps, config_map("new")).refused(403, "Forbidden")
    assert causes_of(status) == {("metadata.namespace", "NamespaceTerminating")}
