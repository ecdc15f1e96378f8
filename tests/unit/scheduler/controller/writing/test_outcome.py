"""Writes to an API server: they are conditional, and each response has its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.resources import CONFIG_MAPS, JOBS
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.controller.admissionchecks.provisioning_request import PROVISIONING_REQUESTS
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.writing.outcome import attempt

if TYPE_CHECKING:
    from collections.abc import Generator

Json = dict[str, Any]

KEY = ObjectKey(CONFIG_MAPS, "default", "c")


@pytest.fixture
def client() -> Generator[Client]:
    with ApiServer() as server:
        client = Client(server.client_config())
        yield client
        client.close()


def config_map(client: Client) -> Json:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
    outcome = attempt(client, Write(Verb.CREATE, KEY, "create", body))
    assert outcome.result == "done"
    assert outcome.obj is not None
    return outcome.obj


def patch(obj: Json, uid: str = "", resource_version: str = "") -> Write:
    body = {"data": {"a": "b"}}
    return Write(Verb.MERGE_PATCH, KEY, "patch", body, uid=uid, resource_version=resource_version)


def test_a_patch_of_the_observed_object_is_done_and_returns_the_newest(client: Client) -> None:
    obj = config_map(client)
    metadata = obj["metadata"]
    outcome = attempt(client, patch(obj, uid=metadata["uid"], resource_version=metadata["resourceVersion"]))
    assert outcome.result == "done"
    assert outcome.obj is not None
    assert outcome.obj["data"] == {"a": "b"}
    assert int(outcome.obj["metadata"]["resourceVersion"]) > int(metadata["resourceVersion"])


def test_a_second_creation_is_stale(client: Client) -> None:
    obj = config_map(client)
    body = {name: value for name, value in obj.items() if name != "metadata"} | {
        "metadata": {"name": "c", "namespace": "default"}
    }
    assert attempt(client, Write(Verb.CREATE, KEY, "create", body)).result == "stale"


@pytest.mark.parametrize("condition", [{"uid": "other"}, {"resource_version": "1"}])
def test_a_patch_of_another_object_or_version_is_stale(client: Client, condition: dict[str, str]) -> None:
    obj = config_map(client)
    assert attempt(client, patch(obj, **condition)).result == "stale"
    assert "data" not in client.get(CONFIG_MAPS, "c", namespace="default")


def test_a_json_patch_tests_the_uid(client: Client) -> None:
    uid = config_map(client)["metadata"]["uid"]
    operations = [{"op": "add", "path": "/data", "value": {"a": "b"}}]
    assert attempt(client, Write(Verb.JSON_PATCH, KEY, "patch", operations, uid="other")).result == "stale"
    assert attempt(client, Write(Verb.JSON_PATCH, KEY, "patch", operations, uid=uid)).result == "done"


def test_a_write_of_a_deleted_object_is_stale_but_its_deletion_is_done(client: Client) -> None:
    uid = config_map(client)["metadata"]["uid"]
    assert attempt(client, Write(Verb.DELETE, KEY, "delete", uid="other")).result == "stale"
    assert attempt(client, Write(Verb.DELETE, KEY, "delete", uid=uid)).result == "done"
    assert attempt(client, Write(Verb.DELETE, KEY, "delete", uid=uid)).result == "done"
    assert attempt(client, Write(Verb.MERGE_PATCH, KEY, "patch", {})).result == "stale"


def test_an_invalid_object_is_rejected(client: Client) -> None:
    key = ObjectKey(JOBS, "default", "j")
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"}, "spec": {}}
    outcome = attempt(client, Write(Verb.CREATE, key, "create", body))
    assert outcome.result == "rejected"
    assert outcome.message


def test_the_outcome_of_a_write_without_response_is_unknown() -> None:
    client = Client(Config.from_url("http://127.0.0.1:1"))
    assert attempt(client, Write(Verb.MERGE_PATCH, KEY, "patch", {})).result == "unknown"


def test_a_creation_of_a_kind_that_is_not_served_is_rejected(client: Client) -> None:
    key = ObjectKey(PROVISIONING_REQUESTS, "default", "r")
    body = {"apiVersion": key.resource.api_version, "kind": key.resource.kind, "metadata": {"name": "r"}}
    outcome = attempt(client, Write(Verb.CREATE, key, "create", body))
    assert outcome.result == "rejected"
    assert outcome.message


def test_a_write_is_not_sent_if_no_object_of_a_needed_kind_can_be_created(client: Client) -> None:
    """The cluster of the test has no ProvisioningRequests."""
    obj = config_map(client)
    outcome = attempt(client, patch(obj)._replace(needs=PROVISIONING_REQUESTS))
    assert (outcome.result, outcome.message) == (
        "rejected",
        "no provisioningrequests.autoscaling.x-k8s.io can be created",
    )
    assert "data" not in client.get(CONFIG_MAPS, "c", namespace="default")
    assert attempt(client, patch(obj)._replace(needs=CONFIG_MAPS)).result == "done"
