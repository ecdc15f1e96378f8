"""Replicas that serve the webhooks with a single certificate, on an embedded API server."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import urllib3

from support.admission_reviews import job, review, rules
from support.waiting import PATIENCE, eventually
from zonewise_common.kube.client import Client, PatchKind
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import Forbidden, TransportError, Unauthorized
from zonewise_common.kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS, SECRETS, VALIDATING_WEBHOOK_CONFIGURATIONS
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.controller.webhooks import webhook_server
from zonewise_scheduler.controller.webhooks.handler import VALIDATE_PATH, WebhookHandler
from zonewise_scheduler.controller.webhooks.webhook_server import WebhookOptions, WebhookServer, trust_patch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = ("localhost",)
KINDS = (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS)
DAY = 86_400.0


class Replicas:
    """Two replicas on one API server; the first one leads. The test runs their steps."""

    def __init__(self, url: str, directory: Path) -> None:
        self.client = Client(Config.from_url(url))
        self.now = time.time()
        self.servers: list[WebhookServer] = []
        for i in range(2):
            place = directory / str(i)
            place.mkdir()
            options = WebhookOptions("127.0.0.1:0", "default", directory=str(place), names=NAMES)
            handler = WebhookHandler(rules())
            leads = i == 0
            self.servers.append(
                WebhookServer(
                    self.client, handler, options, is_leader=lambda leads=leads: leads, clock=lambda: self.now
                )
            )

    def configure(self) -> None:
        for resource in KINDS:
            webhooks: list[Any] = [
                {
                    "name": f"{name}.zonewise.dev",
                    "clientConfig": {"service": {"namespace": "default", "name": "zonewise-controller"}},
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                }
                for name in ("a", "b")
            ]
            self.client.create(resource, {"metadata": {"name": "zonewise-controller"}, "webhooks": webhooks})

    def trusted(self) -> set[str]:
        """Return the CA bundles of all webhooks."""
        return {
            base64.b64decode(webhook["clientConfig"].get("caBundle", "")).decode()
            for resource in KINDS
            for webhook in self.client.get(resource, "zonewise-controller")["webhooks"]
        }

    def ask(self, i: int) -> Any:
        """Return the response of a replica to a client that trusts the CAs in the configurations."""
        [bundle] = self.trusted()
        context = ssl.create_default_context(cadata=bundle)
        with urllib3.PoolManager(ssl_context=context, retries=False) as pool:
            url = f"https://localhost:{self.servers[i].port}{VALIDATE_PATH}?timeout=5s"
            answer = pool.request("POST", url, body=json.dumps(review(job("Q!"))))
            return json.loads(answer.data)["response"]["allowed"]

    def secret(self) -> Any:
        return self.client.get(SECRETS, "zonewise-controller-webhook", namespace="default")


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    with ApiServer() as server:
        made = Replicas(server.url, tmp_path)
        yield made
        for one in made.servers:
            one.__exit__(None, None, None)
        made.client.close()


def test_all_replicas_serve_one_certificate(replicas: Replicas) -> None:
    replicas.configure()
    for one in reversed(replicas.servers):
        one.step()
    assert [replicas.ask(i) for i in range(2)] == [False, False]
    version = replicas.secret()["metadata"]["resourceVersion"]
    for one in replicas.servers:
        one.step()
    assert replicas.secret()["metadata"]["resourceVersion"] == version


def test_a_stop_does_not_wait_for_an_api_server_that_does_not_respond(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_read, responds = threading.Event(), threading.Event()

    def read_slowly(*_: object, **__: object) -> None:
        is_read.set()
        responds.wait(PATIENCE)
        raise TransportError("timed out")

    monkeypatch.setattr(replicas.client, "get", read_slowly)
    started = time.monotonic()
    with replicas.servers[0]:
        assert is_read.wait(PATIENCE)
    assert time.monotonic() < started + PATIENCE / 10
    responds.set()


def test_a_secret_without_data_is_filled(replicas: Replicas) -> None:
    """The manifests contain an empty Secret, so that no permission to create Secrets is needed."""
    replicas.client.create(SECRETS, {"metadata": {"name": "zonewise-controller-webhook", "namespace": "default"}})
    replicas.servers[0].step()
    assert set(replicas.secret()["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}


def forbid(*_: object, **__: object) -> None:
    raise Forbidden(403, "Forbidden", "secrets is forbidden")


def test_a_deleted_secret_that_may_not_be_created(replicas: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped Role does not permit it. The error says what to do."""
    monkeypatch.setattr(replicas.client, "create", forbid)
    with pytest.raises(Forbidden, match=r"Secret default/zonewise-controller-webhook does not exist.*apply the"):
        replicas.servers[0].step()


def test_the_cas_are_repaired_while_the_secret_is_missing(replicas: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate in use is valid, so no job need be rejected until the manifests are applied again."""
    replicas.configure()
    for one in replicas.servers:
        one.step()
    replicas.client.delete(SECRETS, "zonewise-controller-webhook", namespace="default")
    patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": "d3Jvbmc="}]
    replicas.client.patch(KINDS[0], "zonewise-controller", patch, kind=PatchKind.JSON)
    monkeypatch.setattr(replicas.client, "create", forbid)
    for one in replicas.servers:
        with pytest.raises(Forbidden):
            one.step()
    assert [replicas.ask(i) for i in range(2)] == [False, False]


def test_the_faster_replica_wins(replicas: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica whose write conflicts uses the certificate of the other one."""
    slow, fast = replicas.servers
    get = replicas.client.get
    raced: list[bool] = []

    def race(*arguments: Any, **named: Any) -> Any:
        if arguments[0] == SECRETS and not raced:
            raced.append(True)
            try:
                return get(*arguments, **named)
            finally:
                fast.step()
        return get(*arguments, **named)

    monkeypatch.setattr(replicas.client, "get", race)
    replicas.configure()
    slow.step()
    assert raced
    assert [replicas.ask(i) for i in range(2)] == [False, False]


def test_a_renewal_does_not_interrupt_service(replicas: Replicas) -> None:
    """The clock passes ten years in monthly steps up to today; then each replica serves a trusted certificate."""
    replicas.now -= 130 * 30 * DAY
    replicas.configure()
    for one in replicas.servers:
        one.step()
    certs: set[str] = set()
    for _ in range(130):
        replicas.now += 30 * DAY
        for one in replicas.servers:
            one.step()
        certs.add(replicas.secret()["data"]["tls.crt"])
    assert len(certs) > 10
    assert [replicas.ask(i) for i in range(2)] == [False, False]


def test_missing_configurations(replicas: Replicas, caplog: pytest.LogCaptureFixture) -> None:
    """Without webhook configurations the webhooks are still served. The log names each missing kind once."""
    caplog.set_level("INFO")
    replicas.servers[0].step()
    replicas.servers[0].step()
    assert replicas.servers[0].port
    assert len([line for line in caplog.messages if "is not installed" in line]) == len(KINDS)


def test_it_serves_as_a_context(replicas: Replicas) -> None:
    from support.waiting import eventually

    replicas.configure()
    with replicas.servers[0] as server:
        eventually(lambda: server.port > 0 and "" not in replicas.trusted())
        assert replicas.ask(0) is False


def test_the_patch_tests_the_names_of_its_webhooks() -> None:
    """A webhook that was inserted in the meantime makes the patch fail."""
    webhooks: list[Any] = [{"name": "a", "clientConfig": {"caBundle": "x"}}, {"name": "b", "clientConfig": {}}]
    assert trust_patch({"webhooks": webhooks}, "x") == [
        {"op": "test", "path": "/webhooks/1/name", "value": "b"},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "x"},
    ]


def test_a_replica_that_begins_to_lead_writes_its_cas_at_once(replicas: Replicas, tmp_path: Path) -> None:
    """No job can be created until the CAs are written, so they must not wait for the next check, a minute later."""
    replicas.configure()
    leads = threading.Event()
    options = WebhookOptions("127.0.0.1:0", "default", directory=str(tmp_path), names=NAMES)
    handler = WebhookHandler(rules())
    with WebhookServer(replicas.client, handler, options, is_leader=leads.is_set, clock=time.time) as server:
        eventually(lambda: server.port)
        assert replicas.trusted() == {""}
        leads.set()
        eventually(lambda: replicas.trusted() != {""})


def test_an_exception_does_not_end_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def step(_server: WebhookServer) -> None:
        steps.append(len(steps))
        raise RuntimeError("a defect")

    monkeypatch.setattr(webhook_server, "_RETRY", 0.0)
    monkeypatch.setattr(WebhookServer, "step", step)
    options = WebhookOptions("127.0.0.1:0", "default", directory=str(tmp_path), names=NAMES)
    client = Client(Config.from_url("http://127.0.0.1:9"))
    with WebhookServer(client, WebhookHandler(rules()), options, is_leader=lambda: True, clock=time.time):
        eventually(lambda: len(steps) > 1)


def test_an_outage_of_the_api_server_is_one_line_for_each_kind_of_failure(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", webhook_server.log.name)
    outcomes = [Unauthorized(401, "", "a"), TransportError("b"), Unauthorized(401, "", "c"), None, TransportError("d")]
    steps: list[int] = []

    def step(_server: WebhookServer) -> None:
        steps.append(len(steps))
        outcome = outcomes[min(steps[-1], len(outcomes) - 1)]
        if outcome is not None:
            raise outcome

    monkeypatch.setattr(webhook_server, "_RETRY", 0.0)
    monkeypatch.setattr(webhook_server, "_PERIOD", 0.0)
    monkeypatch.setattr(WebhookServer, "step", step)
    with replicas.servers[0]:
        eventually(lambda: len(steps) > 2 * len(outcomes))
    failure = "the certificate of the webhooks cannot be checked: "
    again = "the certificate of the webhooks is checked again"
    assert caplog.messages == [f"{failure}401: a", f"{failure}b", again, f"{failure}d"]
