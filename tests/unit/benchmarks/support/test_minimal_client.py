"""The minimal client: each chain's writes in order, and no unreported failure."""

from __future__ import annotations

import json

import pytest

from benchmarks.support.minimal_client import MinimalClient, PreparedWrite, ServerAccess
from support.api import MERGE, Api
from zonewise_sandbox.apiserver import ApiServer

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def create(name: str) -> PreparedWrite:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"step": "created"}}
    return PreparedWrite("POST", CONFIG_MAPS, "application/json", json.dumps(body).encode())


def patch(name: str, step: str) -> PreparedWrite:
    return PreparedWrite("PATCH", f"{CONFIG_MAPS}/{name}", MERGE, json.dumps({"data": {"step": step}}).encode())


def test_the_writes_of_each_chain_are_sent_in_order() -> None:
    chains = [[create(f"c{i}"), patch(f"c{i}", "first"), patch(f"c{i}", "last")] for i in range(30)]
    with ApiServer() as server, MinimalClient(ServerAccess(server.url), 4) as client:
        assert client.send(chains) > 0
        items = Api(server.url).get(CONFIG_MAPS).ok()["items"]
    assert {item["metadata"]["name"]: item["data"]["step"] for item in items} == {f"c{i}": "last" for i in range(30)}


def test_a_rejected_write_is_reported() -> None:
    with ApiServer() as server, MinimalClient(ServerAccess(server.url), 2) as client:
        with pytest.raises(RuntimeError, match=r"1 writes failed: PATCH .*/absent: 404"):
            client.send([[patch("absent", "first")], [create("present")]])
        assert Api(server.url).get(f"{CONFIG_MAPS}/present").status == 200
