"""Turns a request into its response: paths, verbs, options."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zonewise_sandbox.apiserver.admission_warnings import collect_warnings, warning_headers
from zonewise_sandbox.apiserver.discovery import VERSION, discover
from zonewise_sandbox.apiserver.http import representation, request_bodies
from zonewise_sandbox.apiserver.http.service_proxy import ServiceAddresses, is_proxied, no_addresses, proxy
from zonewise_sandbox.apiserver.http.watch import Watch, parse_bool, watch_options
from zonewise_sandbox.apiserver.http.wire import Request, Response
from zonewise_sandbox.apiserver.json_values import list_in, object_in
from zonewise_sandbox.apiserver.kinds import POD
from zonewise_sandbox.apiserver.openapi import OPENAPI_V2, OPENAPI_V2_TYPE, open_api
from zonewise_sandbox.apiserver.request_info import DeleteOptions, Target, WriteOptions
from zonewise_sandbox.apiserver.rest_storage import RestStorage
from zonewise_sandbox.apiserver.reviews import is_review_kind, user_of
from zonewise_sandbox.apiserver.status_errors import (
    StatusError,
    invalid_options,
    method_not_allowed,
    no_such_resource,
    required,
    unauthorized,
    unsupported,
)
from zonewise_sandbox.apiserver.storage.listing import Lister, selector_predicate
from zonewise_sandbox.apiserver.webhook_client import Resolver, no_resolver

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind, Registry
    from zonewise_sandbox.apiserver.reviews import Reviews
    from zonewise_sandbox.apiserver.storage.listing import ListPage
    from zonewise_sandbox.apiserver.storage.store import Store


_HEALTH = frozenset({"/healthz", "/readyz", "/livez"})


class ServerSettings(NamedTuple):
    """The behaviour of a server."""

    token: str | None
    """The token that every request needs; None for no authentication."""
    reviews: Reviews
    bookmark_interval: float
    """Seconds between bookmarks."""
    resolve: Resolver = no_resolver
    """Returns the address of a webhook's service from the service's namespace, name and port."""
    services: ServiceAddresses = no_addresses
    """Returns the address of a service behind the proxy."""


class Router:
    """Handles requests."""

    def __init__(self, store: Store, registry: Registry, settings: ServerSettings) -> None:
        """Create a router that serves the registry's kinds from a store."""
        self._store = store
        self._registry = registry
        self._settings = settings
        self.objects = RestStorage(store, registry, settings.resolve)
        self.lister = Lister(store)

    def handle(self, request: Request) -> Response:
        """Return the response to a request, with the warnings of webhooks; a StatusError becomes a response too."""
        with collect_warnings() as warnings:
            response = self._handle(request)
        return response._replace(headers=(*response.headers, *warning_headers(warnings))) if warnings else response

    def _handle(self, request: Request) -> Response:
        try:
            self._authenticate(request)
            parts = [part for part in request.path.split("/") if part]
            if is_proxied(parts):
                return proxy(request, parts, self._settings.services)
            return self._at_path(request, parts)
        except StatusError as error:
            return _json(error.code, error.body())

    def _authenticate(self, request: Request) -> None:
        token = self._settings.token
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token is not None and not hmac.compare_digest(bearer.encode(), token.encode()):
            raise unauthorized()

    def _at_path(self, request: Request, parts: list[str]) -> Response:
        if request.path.rstrip("/") in _HEALTH:
            return Response(200, b"ok", "text/plain; charset=utf-8")
        if parts == ["version"]:
            return _json(200, VERSION)
        if parts[:1] == ["openapi"] and (response := self._open_api(parts[1:])):
            return response
        if parts and parts[0] in {"api", "apis"}:
            document = discover(self._registry, parts)
            if document is not None:
                return _json(200, document)
            target = self._target(parts)
            if target is not None:
                return self._at_target(request, target)
            if parts[0] == "api" or len(parts) < 4:
                raise no_such_resource()
        return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")

    def _open_api(self, parts: list[str]) -> Response | None:
        if parts == ["v2"]:
            return Response(200, OPENAPI_V2, OPENAPI_V2_TYPE)
        document = open_api(self._registry, parts[1:]) if parts[:1] == ["v3"] else None
        return None if document is None else _json(200, document)

    def _target(self, parts: list[str]) -> Target | None:
        group, rest = ("", parts[1:]) if parts[0] == "api" else (parts[1] if len(parts) > 1 else "", parts[2:])
        if len(rest) < 2:
            return None
        version, *rest = rest
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and self._registry.find(group, version, rest[2]):
            namespace, rest = rest[1], rest[2:]
        kind = self._registry.find(group, version, rest[0])
        if kind is None or len(rest) > 3 or (namespace and not kind.namespaced):
            return None
        return Target(kind, namespace, *rest[1:])

    def _at_target(self, request: Request, target: Target) -> Response:
        if is_review_kind(target.kind):
            return self._review(request, target.kind)
        if target.subresource not in {"", "status"} or (target.subresource and not target.kind.status):
            return self._at_subresource(request, target)
        if not target.name:
            return self._at_collection(request, target)
        if target.kind.namespaced and not target.namespace:
            raise no_such_resource()
        return self._at_object(request, target)

    def _at_object(self, request: Request, target: Target) -> Response:
        if request.method == "GET":
            return self._object(request, target.kind, 200, self.objects.get(target))
        if request.method == "PUT":
            body = request_bodies.parse_object(request.body, request.content_type, target.kind)
            obj = self.objects.replace(target, body, _options(request, "UpdateOptions"))
            return self._object(request, target.kind, 200, obj)
        if request.method == "PATCH":
            return self._patch(request, target)
        if request.method == "DELETE" and not target.subresource:
            return self._delete(request, target)
        raise method_not_allowed()

    def _at_collection(self, request: Request, target: Target) -> Response:
        kind, namespace = target.kind, target.namespace
        if request.method == "GET":
            form = representation.requested_form(request.headers.get("accept", ""))
            if parse_bool(request.query.get("watch", "")):
                options = watch_options(kind, namespace, request.query, form)
                watch = Watch(self._store, kind, options, self._settings.bookmark_interval)
                return Response(200, stream=watch.lines())
            page = self.lister.list(kind, namespace, request.query)
            return self._page(kind, page, form, request.query.get("includeObject", ""))
        if kind.namespaced and not namespace:
            raise method_not_allowed()
        if request.method == "POST":
            body = request_bodies.parse_object(request.body, request.content_type, kind)
            obj = self.objects.create(target, body, _options(request, "CreateOptions"))
            return self._object(request, kind, 201, obj)
        if request.method == "DELETE":
            return self._delete_collection(request, target)
        raise method_not_allowed()

    def _at_subresource(self, request: Request, target: Target) -> Response:
        if target.kind.resource != POD.resource or target.subresource not in {"binding", "eviction"}:
            raise no_such_resource()
        if request.method != "POST":
            raise method_not_allowed()
        body = request_bodies.parse_object(request.body, request.content_type, target.kind)
        plain = target._replace(subresource="")
        if target.subresource == "binding":
            self.objects.bind(plain, body, _options(request, "CreateOptions"))
        else:
            self.objects.evict(plain, _deletion(object_in(body, "deleteOptions"), request.query))
        return _json(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})

    def _patch(self, request: Request, target: Target) -> Response:
        options = _options(request, "PatchOptions")
        if request.content_type != request_bodies.APPLY_PATCH:
            patch = request_bodies.parse_patch(request.body, request.content_type, target.kind)
            return self._object(request, target.kind, 200, self.objects.patch(target, patch, options))
        if not request.query.get("fieldManager"):
            raise invalid_options("PatchOptions", required("fieldManager", "is required for apply patch"))
        applied = request_bodies.parse_applied(request.body, target.kind)
        obj, new = self.objects.apply(target, applied, options)
        return self._object(request, target.kind, 201 if new else 200, obj)

    def _delete(self, request: Request, target: Target) -> Response:
        deletion = _deletion(request_bodies.parse_options(request.body, request.content_type), request.query)
        uid = self.objects.get(target)["metadata"]["uid"]
        remaining = self.objects.delete(target, deletion)
        if remaining is not None:
            return self._object(request, target.kind, 200, remaining)
        details: Object = {"name": target.name, "kind": target.kind.plural, "uid": uid}
        if target.kind.group:
            details["group"] = target.kind.group
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return _json(200, success)

    def _delete_collection(self, request: Request, target: Target) -> Response:
        deletion = _deletion(request_bodies.parse_options(request.body, request.content_type), request.query)
        test = selector_predicate(target.kind, request.query)
        page = self.lister.list(target.kind, target.namespace, {})
        selected = [record for record in page.records if test is None or test(record.object)]
        for record in selected:
            metadata = record.object["metadata"]
            item = target._replace(namespace=metadata.get("namespace", ""), name=metadata["name"])
            if self._store.get(item.kind.resource, item.key) is not None:  # it may be a dependent of another item
                self.objects.delete(item, deletion)
        return self._page(target.kind, page._replace(records=selected), "", "")

    def _review(self, request: Request, kind: Kind) -> Response:
        if request.method != "POST":
            raise method_not_allowed()
        body = request_bodies.parse_object(request.body, request.content_type, kind)
        return _json(201, self._settings.reviews.evaluate(kind, body, user_of(request.headers)))

    def _object(self, request: Request, kind: Kind, status: int, obj: Object) -> Response:
        if obj.get("apiVersion") != kind.api_version:
            obj = {**obj, "apiVersion": kind.api_version}
        form = representation.requested_form(request.headers.get("accept", ""))
        include = request.query.get("includeObject", "")
        return _json(status, representation.represent_object(kind, obj, form, now=self._store.now(), include=include))

    def _page(self, kind: Kind, page: ListPage, form: str, include: str) -> Response:
        metadata: Object = {"resourceVersion": str(page.version)}
        if page.next:
            metadata["continue"] = page.next
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
        if form:
            return _json(200, representation.represent_list(kind, page, metadata, form, include, now=self._store.now()))
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
        items = b",".join(
            record.encoded
            if record.object.get("apiVersion") == kind.api_version
            else msgspec.json.encode({**record.object, "apiVersion": kind.api_version})
            for record in page.records
        )
        return Response(200, msgspec.json.encode(head)[:-1] + b',"items":[' + items + b"]}")


def _json(status: int, obj: Object) -> Response:
    return Response(status, msgspec.json.encode(obj))


def _options(request: Request, kind: str) -> WriteOptions:
    query = request.query
    agent = request.headers.get("user-agent", "unknown").partition("/")[0]
    return WriteOptions(
        manager=query.get("fieldManager") or agent,
        force=parse_bool(query.get("force", "")),
        dry_run=_is_dry(query.get("dryRun", ""), kind),
        strict=query.get("fieldValidation") == "Strict",
        user=user_of(request.headers),
    )


def _deletion(body: Object, query: dict[str, str]) -> DeleteOptions:
    preconditions = object_in(body, "preconditions")
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    return DeleteOptions(
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        None if grace is None else int(grace),
        propagation,
        _is_dry(query.get("dryRun") or "".join(list_in(body, "dryRun")), "DeleteOptions"),
    )


def _is_dry(text: str, options: str) -> bool:
    if text not in {"", "All"}:
        raise invalid_options(options, unsupported("dryRun", [text], ("All",)))
    return bool(text)
