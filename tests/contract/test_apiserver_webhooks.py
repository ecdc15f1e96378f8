"""Admission webhooks: the embedded API server calls them as the real one does."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from support.apiserver import real_server
from support.clusters import Cluster, causes_of, cluster, config_map, embedded_server
from support.waiting import eventually
from support.webhook_server import WebhookServer, allow, deny
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from support.api import Json

__all__ = ["cluster", "embedded_server", "real_server"]

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
ADD_LABEL = {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}


@pytest.fixture
def webhook() -> Iterator[WebhookServer]:
    with WebhookServer(lambda _: allow()) as server:
        yield server


def hook(cluster: Cluster, client: Json, *operations: str, resources: str = "configmaps", **fields: Any) -> Json:
    rule = {"operations": operations or ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resources]}
    return {
        "name": "hook.example.com",
        "clientConfig": client,
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
        **fields,
    }


@contextlib.contextmanager
def configured(cluster: Cluster, plural: str, *hooks: Json) -> Generator[None]:
    """Configure webhooks while the context is entered; a real server applies and removes a configuration with delay."""
    name, path = f"config-{secrets.token_hex(4)}", f"{CONFIGURATIONS}/{plural}"
    cluster.api.post(path, {"metadata": {"name": name}, "webhooks": list(hooks)}).ok()
    try:
        yield
    finally:
        cluster.api.delete(f"{path}/{name}").ok()


def wait_until_called(cluster: Cluster, webhook: WebhookServer) -> None:
    """Create objects until the webhook receives a review of one, and discard these reviews."""

    def is_called() -> bool:
        cluster.api.post(cluster.config_maps, config_map(f"probe-{secrets.token_hex(4)}"))
        return bool(webhook.requests)

    eventually(is_called)
    webhook.requests.clear()


def wait_until_cached(cluster: Cluster, name: str, **data: str) -> None:
    """Wait until the server's watch cache contains an object; a change based on a stale one is reviewed twice.

    Source: apiserver pkg/storage/etcd3/store.go GuaranteedUpdate and conditionalDelete, which begin with the cached
    object.
    """
    path = f"{cluster.config_maps}/{name}"

    def is_cached() -> bool:
        response = cluster.api.get(path, resourceVersion="0")
        return response.status == 200 and response.body["data"] == data

    eventually(is_cached)


def test_a_review_contains_the_object_and_the_request(cluster: Cluster, webhook: WebhookServer) -> None:
    every = ("CREATE", "UPDATE", "DELETE")
    with configured(cluster, VALIDATING, hook(cluster, webhook.client_config, *every)):
        wait_until_called(cluster, webhook)
        cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
        wait_until_cached(cluster, "one", a="1")
        cluster.api.patch(f"{cluster.config_maps}/one", {"data": {"a": "2"}}).ok()
        wait_until_cached(cluster, "one", a="2")
        cluster.api.delete(f"{cluster.config_maps}/one").ok()
        created, updated, deleted = webhook.requests
    assert [each["operation"] for each in webhook.requests] == list(every)
    for each in webhook.requests:
        assert each["kind"] == each["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
        assert each["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
        assert (each["name"], each["namespace"], each["dryRun"]) == ("one", cluster.namespace, False)
        assert "system:masters" in each["userInfo"]["groups"]
    assert (created["object"]["data"], created["oldObject"]) == ({"a": "1"}, None)
    assert (updated["object"]["data"], updated["oldObject"]["data"]) == ({"a": "2"}, {"a": "1"})
    assert (deleted["object"], deleted["oldObject"]["data"]) == (None, {"a": "2"})
    assert created["object"]["metadata"]["uid"]


def test_a_mutating_webhook_changes_the_object(cluster: Cluster, webhook: WebhookServer) -> None:
    webhook.respond = lambda _: allow(ADD_LABEL)
    with configured(cluster, MUTATING, hook(cluster, webhook.client_config, "CREATE", "UPDATE")):
        wait_until_called(cluster, webhook)
        made = cluster.api.post(cluster.config_maps, config_map("one")).ok()
        assert made["metadata"]["labels"] == {"seen": "yes"}
        assert "uid" not in webhook.requests[0]["object"]["metadata"]
        made = cluster.api.put(f"{cluster.config_maps}/one", config_map("one", a="1")).ok()
        assert made["metadata"]["labels"] == {"seen": "yes"}
        assert made["data"] == {"a": "1"}


@pytest.mark.parametrize(
    ("response", "status", "message"),
    [
        (deny("no room"), 400, 'admission webhook "hook.example.com" denied the request: no room'),
        (deny(), 400, 'admission webhook "hook.example.com" denied the request without explanation'),
        (deny("no", code=403, reason="Forbidden"), 403, 'admission webhook "hook.example.com" denied the request: no'),
    ],
)
@pytest.mark.parametrize("plural", [MUTATING, VALIDATING])
def test_a_denial_is_the_response(
    cluster: Cluster, webhook: WebhookServer, plural: str, response: Json, status: int, message: str
) -> None:
    with configured(cluster, plural, hook(cluster, webhook.client_config)):
        wait_until_called(cluster, webhook)
        webhook.respond = lambda _: response
        answer = cluster.api.post(cluster.config_maps, config_map("one"))
        assert (answer.status, answer.body["message"]) == (status, message)
        assert answer.body.get("reason") == response.get("status", {}).get("reason")
    cluster.api.get(f"{cluster.config_maps}/one").refused(404, "NotFound")


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (["twice", "twice", "", "two\nlines"], ["twice"]),
        (['a "quoted" \\ text', "Grüße"], [r"a \"quoted\" \\ text", "Grüße"]),
        (["a" * 4096, "fits"], ["a" * 256, "fits"]),
        ([f"{i:02}" + "a" * 300 for i in range(20)], [f"{i:02}" + "a" * 254 for i in range(16)]),
    ],
    ids=["left-out", "quoted", "long", "many"],
)
def test_warnings_are_passed_on(cluster: Cluster, webhook: WebhookServer, texts: list[str], shown: list[str]) -> None:
    with configured(cluster, VALIDATING, hook(cluster, webhook.client_config)):
        wait_until_called(cluster, webhook)
        webhook.respond = lambda _: {**allow(), "warnings": texts}
        created = cluster.api.post(cluster.config_maps, config_map("one"))
        headers = ", ".join(f'299 - "{text}"' for text in shown)
        assert created.headers["warning"].encode("latin-1").decode() == headers
        webhook.respond = lambda _: {**deny("no"), "warnings": ["careful"]}
        denied = cluster.api.post(cluster.config_maps, config_map("two"))
        assert (denied.status, denied.headers["warning"]) == (400, '299 - "careful"')
    assert "warning" not in cluster.api.get(f"{cluster.config_maps}/one").headers


def test_selectors_choose_objects_and_namespaces(cluster: Cluster, webhook: WebhookServer) -> None:
    selector = {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]}
    with configured(cluster, VALIDATING, hook(cluster, webhook.client_config, objectSelector=selector)):
        wait_until_called(cluster, webhook)
        webhook.respond = lambda _: deny("no")
        cluster.api.post(cluster.config_maps, config_map("skipped", {"skip": "me"})).ok()
        cluster.api.post("/api/v1/namespaces/default/configmaps", config_map(f"other-{secrets.token_hex(4)}")).ok()
        assert cluster.api.post(cluster.config_maps, config_map("one")).status == 400


@pytest.mark.parametrize(("resources", "called"), [("pods/status", False), ("*", True), ("*/*", True)])
def test_rules_name_resources(cluster: Cluster, webhook: WebhookServer, resources: str, called: bool) -> None:
    probe = hook(cluster, webhook.client_config)
    chosen = hook(cluster, webhook.client_config, resources=resources)
    account = {"metadata": {"name": "one"}}
    with configured(cluster, VALIDATING, {**chosen, "name": "chosen.example.com"}, probe):
        wait_until_called(cluster, webhook)
        cluster.api.post(f"{cluster.core}/serviceaccounts", account).ok()
        assert bool(webhook.requests) == called


def test_a_failure_is_ignored_or_not(cluster: Cluster, webhook: WebhookServer) -> None:
    with reserved_port() as port:
        silent = {"url": f"https://127.0.0.1:{port}/", "caBundle": webhook.bundle}
        ignored = {**hook(cluster, silent, failurePolicy="Ignore"), "name": "ignored.example.com"}
        with configured(cluster, VALIDATING, ignored, hook(cluster, webhook.client_config)):
            wait_until_called(cluster, webhook)
            cluster.api.post(cluster.config_maps, config_map("ignored")).ok()
        with configured(cluster, VALIDATING, hook(cluster, silent)):
            eventually(lambda: cluster.api.post(cluster.config_maps, config_map(secrets.token_hex(4))).status == 500)
            status = cluster.api.post(cluster.config_maps, config_map("one")).refused(500, "InternalError")
    begin = 'Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook: Post '
    assert status["message"].startswith(f'{begin}"https://127.0.0.1:{port}/?timeout=10s": ')
    assert status["details"]["causes"][0]["message"] in status["message"]


def test_an_unknown_authority_is_a_failure(cluster: Cluster, webhook: WebhookServer) -> None:
    with WebhookServer(lambda _: allow()) as other:
        client = {**webhook.client_config, "caBundle": other.bundle}
        with configured(cluster, VALIDATING, hook(cluster, client)):
            eventually(lambda: cluster.api.post(cluster.config_maps, config_map(secrets.token_hex(4))).status == 500)
    assert not webhook.requests


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"sideEffects": "Some"}, ("webhooks[0].sideEffects", "FieldValueNotSupported")),
        ({"sideEffects": None}, ("webhooks[0].sideEffects", "FieldValueRequired")),
        ({"timeoutSeconds": 31}, ("webhooks[0].timeoutSeconds", "FieldValueInvalid")),
        ({"name": "short"}, ("webhooks[0].name", "FieldValueInvalid")),
        ({"clientConfig": {}}, ("webhooks[0].clientConfig", "FieldValueRequired")),
        ({"clientConfig": {"url": "http://127.0.0.1/"}}, ("webhooks[0].clientConfig.url", "FieldValueInvalid")),
        ({"admissionReviewVersions": []}, ("webhooks[0].admissionReviewVersions", "FieldValueRequired")),
        ({"failurePolicy": "Maybe"}, ("webhooks[0].failurePolicy", "FieldValueNotSupported")),
    ],
)
def test_an_invalid_configuration_names_the_field(
    cluster: Cluster, webhook: WebhookServer, change: Json, cause: tuple[str, str]
) -> None:
    body = {"metadata": {"name": "invalid"}, "webhooks": [{**hook(cluster, webhook.client_config), **change}]}
    assert cause in causes_of(cluster.api.post(f"{CONFIGURATIONS}/{VALIDATING}", body).refused(422, "Invalid"))


def test_a_configuration_has_its_defaults(cluster: Cluster) -> None:
    name, service = f"config-{secrets.token_hex(4)}", {"namespace": "default", "name": "none"}
    body = {"metadata": {"name": name}, "webhooks": [hook(cluster, {"service": service}, failurePolicy="Ignore")]}
    (made,) = cluster.api.post(f"{CONFIGURATIONS}/{MUTATING}", body).ok()["webhooks"]
    cluster.api.delete(f"{CONFIGURATIONS}/{MUTATING}/{name}").ok()
    expected: Json = {"matchPolicy": "Equivalent", "objectSelector": {}, "timeoutSeconds": 10}
    assert made.items() >= expected.items()
    assert made["clientConfig"]["service"]["port"] == 443
    assert made["rules"][0]["scope"] == "*"


def test_a_service_is_resolved_by_a_function() -> None:
    """Only in the embedded server: a real one resolves the addresses of Services through its network."""
    with WebhookServer(lambda _: deny("no"), "queue.default.svc") as webhook:
        addresses = {("default", "queue", 8443): ("127.0.0.1", webhook.port)}
        with ApiServer(resolve=lambda namespace, name, port: addresses[namespace, name, port]) as server:
            cluster = Cluster(_api(server), real=False)
            service: Json = {"namespace": "default", "name": "queue", "port": 8443}
            client = {"service": service, "caBundle": webhook.bundle}
            with configured(cluster, VALIDATING, hook(cluster, client)):
                assert cluster.api.post(cluster.config_maps, config_map("one")).status == 400


def test_a_webhook_may_use_the_server_that_calls_it(cluster: Cluster, webhook: WebhookServer) -> None:
    """The server holds no lock during a review. If the webhook writes the object, the update is recomputed."""
    with configured(cluster, VALIDATING, hook(cluster, webhook.client_config, "CREATE", "UPDATE")):
        wait_until_called(cluster, webhook)
        cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
        path, written = f"{cluster.config_maps}/one", list[int]()

        def respond(request: Json) -> Json:
            if not written and request["object"]["data"].get("a") == "2":
                written.append(1)
                cluster.api.patch(path, {"data": {"b": "meanwhile"}}).ok()
            return allow()

        webhook.respond = respond
        made = cluster.api.patch(path, {"data": {"a": "2"}}).ok()
    assert made["data"] == {"a": "2", "b": "meanwhile"}


def _api(server: ApiServer) -> Any:
    from support.api import Api

    return Api(server.url)
