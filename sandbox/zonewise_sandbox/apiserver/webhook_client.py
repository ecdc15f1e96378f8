"""Calls of webhooks: an AdmissionReview over HTTPS, and its response.

Sources: k8s.io/apiserver/pkg/util/webhook/client.go (the names and addresses of services),
pkg/admission/plugin/webhook/request/admissionreview.go (CreateV1AdmissionReview, VerifyAdmissionResponse).
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from zonewise_sandbox.apiserver.json_values import Object, is_object, object_in

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.webhook_configurations import AdmissionRequest

_REVIEW: Object = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}


Resolver = Callable[[str, str, int], tuple[str, int]]
"""Returns the address of a service from its namespace, name and port."""


class CallError(Exception):
    """A webhook did not respond, or its response is not a valid review."""


def no_resolver(namespace: str, name: str, port: int) -> tuple[str, int]:
    """Resolve no service. Raises CallError."""
    raise CallError(f'failed to call webhook: service "{name}" not found: {namespace}/{name}:{port} has no address')


def call(webhook: Object, request: AdmissionRequest, obj: Object | None, resolve: Resolver) -> Object:
    """Return the response to a review of a request with an object. Raises CallError.

    `resolve` returns the address of a service from its namespace, name and port.
    """
    uid = str(uuid.uuid4())
    body = msgspec.json.encode({**_REVIEW, "request": _review_request(uid, request, obj)})
    host, port, path, address = _location(object_in(webhook, "clientConfig"), resolve)
    seconds = webhook["timeoutSeconds"]
    url = f"https://{host}:{port}{path}?timeout={seconds}s"
    try:
        status, content = _post(address, host, f"{path}?timeout={seconds}s", body, webhook)
    except TimeoutError:
        raise CallError(f'failed to call webhook: Post "{url}": context deadline exceeded') from None
    except (OSError, http.client.HTTPException) as error:
        raise CallError(f'failed to call webhook: Post "{url}": {error}') from error
    if status != 200:
        raise CallError(f"failed to call webhook: the server responded with the status code {status}")
    return _checked(content, uid)


def _location(client: Object, resolve: Resolver) -> tuple[str, int, str, tuple[str, int]]:
    """Return the name in the certificate, the port, the path, and the address to connect to."""
    service = client.get("service")
    if service:
        path, port = service.get("path") or "/", service["port"]
        host = f"{service['name']}.{service['namespace']}.svc"
        return host, port, path, resolve(service["namespace"], service["name"], port)
    parts = urlsplit(str(client["url"]))
    host, port = parts.hostname or "", parts.port or 443
    return host, port, parts.path or "/", (host, port)


def _post(address: tuple[str, int], host: str, path: str, body: bytes, webhook: Object) -> tuple[int, bytes]:
    bundle = object_in(webhook, "clientConfig").get("caBundle")
    context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)
    plain = socket.create_connection(address, webhook["timeoutSeconds"])
    with contextlib.closing(plain), context.wrap_socket(plain, server_hostname=host) as connected:
        connection = http.client.HTTPConnection(host)
        connection.sock = connected
        connection.request("POST", path, body, {"Content-Type": "application/json", "Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read()


def _review_request(uid: str, request: AdmissionRequest, obj: Object | None) -> Object:
    kind, target = request.target.kind, request.target
    kinds = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    review: Object = {"uid": uid, "kind": kinds, "resource": resource, "requestKind": kinds}
    review |= {"requestResource": resource, "operation": request.operation, "userInfo": request.user}
    review |= {"object": obj, "oldObject": request.old, "dryRun": request.dry_run, "options": request.options}
    if target.subresource:
        review |= {"subResource": target.subresource, "requestSubResource": target.subresource}
    named = obj or request.old or {}
    name = target.name or object_in(named, "metadata").get("name")
    texts = {"name": name, "namespace": target.name if kind.plural == "namespaces" else target.namespace}
    return review | {field: text for field, text in texts.items() if text}


def _checked(content: bytes, uid: str) -> Object:
    try:
        review = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise CallError(f"failed to call webhook: {error}") from None
    invalid = "received invalid webhook response"
    if not is_object(review) or not is_object(review.get("response")):
        raise CallError(f"{invalid}: webhook response was absent")
    response: Object = review["response"]
    if response.get("uid") != uid:
        raise CallError(f'{invalid}: expected response.uid="{uid}", got "{response.get("uid", "")}"')
    actual = {field: review.get(field) for field in _REVIEW}
    if actual != _REVIEW:
        raise CallError(f"{invalid}: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview")
    if bool(response.get("patch")) != bool(response.get("patchType")):
        present, absent = ("patch", "patchType") if response.get("patch") else ("patchType", "patch")
        raise CallError(f"{invalid}: webhook returned response.{present} but not response.{absent}")
    return response
