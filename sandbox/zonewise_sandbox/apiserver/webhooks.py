"""Dispatches requests to webhooks: mutating ones in the order of their names, then validating ones.

Sources: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go, validating/dispatcher.go and
errors/statuserror.go (ToStatusErr). reinvocationPolicy IfNeeded acts like Never. Bindings, evictions, reviews, and
deletions by the built-in controllers are not sent.
"""

from __future__ import annotations

import base64
import logging
from typing import TYPE_CHECKING

import msgspec

from zonewise_sandbox.apiserver.admission_warnings import add_warning
from zonewise_sandbox.apiserver.json_values import is_list, is_object, list_in, object_in
from zonewise_sandbox.apiserver.kinds import MUTATING_WEBHOOKS, NAMESPACE, VALIDATING_WEBHOOKS, Kind
from zonewise_sandbox.apiserver.patches.json_patch import JsonPatchError, json_patch
from zonewise_sandbox.apiserver.status_errors import StatusError
from zonewise_sandbox.apiserver.webhook_client import CallError, Resolver, call
from zonewise_sandbox.apiserver.webhook_configurations import matches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.storage.store import Store
    from zonewise_sandbox.apiserver.webhook_configurations import AdmissionRequest

log = logging.getLogger(__name__)


class Webhooks:
    """The webhooks in a store's configurations. They are called without the store's lock."""

    def __init__(self, store: Store, resolve: Resolver) -> None:
        """Create the dispatcher; `resolve` returns the address of a service from its namespace, name and port."""
        self._store = store
        self._resolve = resolve

    def mutate(self, request: AdmissionRequest, obj: Object | None) -> Object | None:
        """Return the object as changed by the webhooks. Raises StatusError."""
        for webhook in self._configured(MUTATING_WEBHOOKS, request):
            if matches(webhook, request, obj, self._namespace_labels(request)):
                response = self._response(webhook, request, obj)
                patch = response.get("patch")
                if patch and obj is None:
                    raise _internal(f'admission webhook "{webhook["name"]}" attempted to modify the object, '
                                    "which is not supported for this operation")  # fmt: skip
                if patch and obj is not None:
                    obj = _patched(webhook, obj, patch)
        return obj

    def validate(self, request: AdmissionRequest, obj: Object | None) -> None:
        """Raise StatusError if a webhook denies a request."""
        for webhook in self._configured(VALIDATING_WEBHOOKS, request):
            if matches(webhook, request, obj, self._namespace_labels(request)):
                response = self._response(webhook, request, obj)
                if response.get("patch"):
                    problem = "received invalid webhook response: validating webhook may not return response.patch"
                    _fail(webhook, CallError(problem))

    def _configured(self, kind: Kind, request: AdmissionRequest) -> Iterator[Object]:
        if request.target.kind.group == MUTATING_WEBHOOKS.group:
            return  # a webhook must not prevent a repair of its configuration
        for record in self._store.list(kind.resource)[0]:
            yield from list_in(record.object, "webhooks")

    def _namespace_labels(self, request: AdmissionRequest) -> Object | None:
        if not request.target.kind.namespaced:
            return None
        record = self._store.get(NAMESPACE.resource, ("", request.target.namespace))
        return object_in(record.object["metadata"], "labels") if record else {}

    def _response(self, webhook: Object, request: AdmissionRequest, obj: Object | None) -> Object:
        """Return a webhook's response; an empty one if its policy ignores the failure."""
        try:
            response = call(webhook, request, obj, self._resolve)
        except CallError as error:
            _fail(webhook, error)
            return {}
        for text in list_in(response, "warnings"):
            add_warning(str(text))
        if not response.get("allowed"):
            raise _denied(webhook["name"], object_in(response, "status"))
        return response


def _fail(webhook: Object, error: CallError) -> None:
    if webhook["failurePolicy"] == "Fail":
        raise _internal(f'failed calling webhook "{webhook["name"]}": {error}')
    log.warning("webhook %s is ignored: %s", webhook["name"], error)


def _patched(webhook: Object, obj: Object, patch: str) -> Object:
    try:
        operations = msgspec.json.decode(base64.b64decode(patch))
    except ValueError as error:
        _fail(webhook, CallError(f"received undecodable patch in webhook response: {error}"))
        return obj
    try:
        patched = json_patch(obj, operations if is_list(operations) else [operations])
    except JsonPatchError as error:
        raise _internal(str(error)) from None
    return patched if is_object(patched) else obj


def _denied(name: str, result: Object) -> StatusError:
    cause = result.get("message") or result.get("reason")
    explanation = f": {cause}" if cause else " without explanation"
    message = f'admission webhook "{name}" denied the request{explanation}'
    return StatusError(max(result.get("code") or 0, 400), result.get("reason", ""), message, result.get("details"))


def _internal(message: str) -> StatusError:
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)
