"""The guard leads only while Kueue does not manage the queues, and it recovers from each error."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from support.api import Api
from support.clusters import DEFINITIONS
from support.definitions import definition_of
from support.kueue_beside import LEASE_NAME, LEASES, kueue_lease, lease, renew, start_kueue
from support.waiting import PATIENCE, eventually
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.service.options import SettingsError
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.controller.kueue import kueue_guard
from zonewise_scheduler.controller.kueue.kueue_guard import KueueGuard
from zonewise_scheduler.controller.kueue.kueue_lease import ADOPTED_ANNOTATION, DEPLOYMENT, LeaseName, renewal

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICK = 0.02
DEPLOYMENT_DEFINITION = definition_of("deployments.apps", "Deployment", "v1")
"""Stands in for the built-in kind, which the in-memory API server lacks."""


class Replica:
    """A guard with a record of its actions."""

    def __init__(self, client: Client, name: LeaseName | None = LEASE_NAME) -> None:
        self.done: list[str] = []
        self.claims: list[str] = []
        self.guard = KueueGuard(
            client, name, lead=self._lead, stand_by=lambda: self.done.append("stand by"), publish=self.claims.append,
            period=QUICK,
        )  # fmt: skip

    def _lead(self, stack: ExitStack) -> None:
        self.done.append("lead")
        stack.callback(lambda: self.done.append("end"))


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


@pytest.fixture
def client(server: ApiServer) -> Iterator[Client]:
    with closing(Client(Config.from_url(server.url, ""))) as opened:
        yield opened


def test_it_leads_if_kueue_was_never_installed(client: Client) -> None:
    replica = Replica(client)
    with replica.guard:
        assert replica.done == ["lead"]
        assert not replica.guard.kueue_manages
    assert replica.done == ["lead", "stand by", "end"]


def test_it_leads_later_if_the_first_attempt_fails(client: Client) -> None:
    """For example, the kubeconfig is read while another program replaces it."""
    done: list[str] = []

    def lead(stack: ExitStack) -> None:
        stack.callback(lambda: done.append("end"))
        if not done:
            raise SettingsError("of this test")
        done.append("lead")

    guard = KueueGuard(client, LEASE_NAME, lead=lead, stand_by=lambda: done.append("stand by"), publish=lambda _: None)
    with pytest.raises(SettingsError):
        guard.step()
    assert done == ["stand by", "end"]
    guard.step()
    guard.step()
    assert done == ["stand by", "end", "lead"]


def test_a_stop_does_not_wait_for_an_api_server_that_does_not_respond(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod would be killed before it has released its own Lease."""
    replica, is_read, responds = Replica(client), threading.Event(), threading.Event()

    def read_slowly(*_: object) -> None:
        is_read.set()
        responds.wait(PATIENCE)

    started = time.monotonic()
    with replica.guard:
        monkeypatch.setattr(kueue_guard, "read_lease", read_slowly)
        assert is_read.wait(PATIENCE)
    assert replica.done == ["lead", "stand by", "end"]
    assert time.monotonic() < started + PATIENCE / 10
    responds.set()
    eventually(lambda: "kueue" not in {thread.name for thread in threading.enumerate()})
    assert replica.done == ["lead", "stand by", "end"]


def test_it_stands_by_while_kueue_runs_or_is_stopped_for_a_while(server: ApiServer, client: Client) -> None:
    """The Lease expired long ago, but an expired Lease is not an adoption."""
    start_kueue(Api(server.url))
    replica = Replica(client)
    with replica.guard:
        assert replica.guard.kueue_manages
        eventually(lambda: len(replica.claims) > 3)
    assert replica.done == []
    assert all("Stop Kueue and run `zonewise adopt`" in claim for claim in replica.claims)


def test_it_leads_and_stands_by_as_the_queues_change_hands(server: ApiServer, client: Client) -> None:
    api = Api(server.url)
    start_kueue(api)
    replica = Replica(client)
    path = f"{LEASES}/{LEASE_NAME.name}"
    with replica.guard:
        api.patch(path, {"metadata": {"annotations": {ADOPTED_ANNOTATION: renewal(lease(api))}}}).ok()
        eventually(lambda: replica.done == ["lead"])
        renew(api, 5)
        eventually(lambda: replica.done == ["lead", "stand by", "end"])
        api.delete(path).ok()
        eventually(lambda: replica.done == ["lead", "stand by", "end", "lead"])
        api.post(LEASES, kueue_lease(9)).ok()
        eventually(lambda: replica.done[-1] == "end")
    assert replica.done == ["lead", "stand by", "end"] * 2


def test_it_does_not_lead_before_it_has_read_the_lease(server: ApiServer) -> None:
    """A Lease that cannot be read may belong to a running Kueue."""
    with closing(Client(Config.from_url("http://127.0.0.1:1", ""))) as nowhere:
        replica = Replica(nowhere)
        with replica.guard:
            assert "cannot be read" in replica.guard.claim
            assert not replica.guard.kueue_manages
    assert (replica.done, replica.claims) == ([], [])


def test_each_outage_of_the_api_server_is_one_line(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, kueue_guard.__name__)
    with closing(Client(Config.from_url("http://127.0.0.1:1", ""))) as nowhere:
        guard = Replica(client).guard
        for served in (True, False, False, True, False, False):
            guard._client = client if served else nowhere  # pyright: ignore[reportPrivateUsage]
            guard.step()
    assert caplog.text.count("cannot be read") == 2


def test_it_keeps_leading_during_an_outage_of_the_api_server(server: ApiServer, client: Client) -> None:
    replica = Replica(client)
    with replica.guard:
        server.close()
        for _ in range(2):
            replica.guard.step()
        assert replica.done == ["lead"]


def test_it_stands_by_for_a_kueue_without_leader_election(server: ApiServer, client: Client) -> None:
    api = Api(server.url)
    api.post(DEFINITIONS, DEPLOYMENT_DEFINITION).ok()
    api.post("/api/v1/namespaces", {"metadata": {"name": LEASE_NAME.namespace}}).ok()
    eventually(lambda: api.serves("apps", "v1", "deployments"))
    path = f"/apis/apps/v1/namespaces/{LEASE_NAME.namespace}/deployments"
    kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
    api.post(path, {**kind, "metadata": {"name": DEPLOYMENT}, "status": {"readyReplicas": 1}}).ok()
    replica = Replica(client)
    with replica.guard:
        assert "has no Lease. Scale it to 0" in replica.guard.claim
        assert replica.done == []
        api.patch(f"{path}/{DEPLOYMENT}", {"status": {"readyReplicas": None}}).ok()
        eventually(lambda: replica.done == ["lead"])
        api.patch(f"{path}/{DEPLOYMENT}", {"status": {"readyReplicas": 1}}).ok()
        eventually(lambda: replica.done == ["lead", "stand by", "end"])
        api.post(LEASES, kueue_lease(annotations={ADOPTED_ANNOTATION: renewal(kueue_lease())})).ok()
        eventually(lambda: replica.done[-1] == "lead")


def test_it_does_not_look_for_kueue_if_the_setting_disables_it(server: ApiServer, client: Client) -> None:
    start_kueue(Api(server.url))
    replica = Replica(client, None)
    with replica.guard:
        assert replica.done == ["lead"]
