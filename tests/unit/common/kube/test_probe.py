"""The probe succeeds for a kind that is served, with or without objects, and fails for any other kind."""

from __future__ import annotations

import pytest

from zonewise_common.kube.client import Client
from zonewise_common.kube.errors import NotFound
from zonewise_common.kube.probe import can_create, probe
from zonewise_common.kube.resources import CONFIG_MAPS, Resource
from zonewise_sandbox.apiserver import ApiServer

UNSERVED = Resource("example.dev", "v1", "things", "Thing", namespaced=True)


def test_a_served_kind_without_objects_passes() -> None:
    with ApiServer() as server:
        probe(Client(server.client_config()), CONFIG_MAPS)


def test_a_kind_that_is_not_served_is_not_found() -> None:
    with ApiServer() as server, pytest.raises(NotFound):
        probe(Client(server.client_config()), UNSERVED)


def test_objects_of_a_served_kind_can_be_created() -> None:
    """The dry run leaves no object behind."""
    with ApiServer() as server:
        client = Client(server.client_config())
        assert can_create(client, CONFIG_MAPS, "default")
        assert client.list(CONFIG_MAPS, namespace="default")[0] == []


def test_no_object_of_an_unserved_kind_can_be_created() -> None:
    with ApiServer() as server:
        assert not can_create(Client(server.client_config()), UNSERVED, "default")
