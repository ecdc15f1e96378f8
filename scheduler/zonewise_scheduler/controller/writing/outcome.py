"""The outcome of a write, and a single attempt at it.

| response | outcome |
|---|---|
| success | done; the object is the newest |
| 404, 409, 422 for the UID or for a test of a JSON patch | stale: the object was deleted or replaced |
| 404 of a creation, of no subresource: there is no such kind or namespace | rejected |
| 400, 413, other 422 | rejected: the server will not accept this write |
| a needed kind is not served, or is being deleted | rejected: the write is not sent |
| 403 | rejected; the writer repeats it a few times, since a server that has just started does not know all roles yet |
| none, 401, 429, 5xx | unknown: the write may be done or not; it is repeated |
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal, NamedTuple

from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from zonewise_common.kube.probe import can_create
from zonewise_scheduler.controller.cluster_cache import drop_managed_fields
from zonewise_scheduler.controller.types import Verb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.controller.types import Json, Write

log = logging.getLogger(__name__)

Result = Literal["done", "stale", "rejected", "unknown"]


class Outcome(NamedTuple):
    """The outcome of a write."""

    result: Result
    obj: Json | None = None
    """The object after the write; None: it was deleted, or the write is not done."""
    message: str = ""
    retry_after: float = 0.0
    """Seconds for which the server requests the client to wait."""
    is_forbidden: bool = False
    """Whether the server rejected the write with 403."""


_NOT_FOUND: Mapping[Verb, Result] = {Verb.DELETE: "done", Verb.CREATE: "rejected"}


def attempt(client: Client, write: Write) -> Outcome:
    """Send a write once."""
    try:
        if write.needs is not None and not can_create(client, write.needs, write.key.namespace):
            return Outcome("rejected", message=f"no {write.needs.plural}.{write.needs.group} can be created")
        obj = _send(client, write)
        return Outcome("done", None if obj is None else drop_managed_fields(obj))
    except KubeError as error:
        retry_after = (error.retry_after if isinstance(error, ApiError) else None) or 0.0
        is_forbidden = isinstance(error, Forbidden)
        return Outcome(_result(write, error), None, str(error), retry_after, is_forbidden)


def guarded_attempt(client: Client, write: Write) -> Outcome:
    """Send a write once. A defect is logged and counts as a rejection, so it ends no thread and loses no object."""
    try:
        return attempt(client, write)
    except Exception as error:  # see above
        log.exception("object=%s write=%s failed", write.key, write.purpose)
        return Outcome("rejected", message=repr(error))


def _result(write: Write, error: KubeError) -> Result:
    if isinstance(error, NotFound):
        return "stale" if write.subresource else _NOT_FOUND.get(write.verb, "stale")
    if isinstance(error, (AlreadyExists, Conflict)) or (
        isinstance(error, Invalid) and _is_of_another_object(write, error)
    ):
        return "stale"
    if not isinstance(error, ApiError) or isinstance(error, (Unauthorized, TooManyRequests, ServerError)):
        return "unknown"
    return "rejected"


def _is_of_another_object(write: Write, error: Invalid) -> bool:
    """Return whether a condition of the write failed: 422 for a different UID (apimachinery ValidateObjectMetaUpdate)
    or for a failed test (apiserver pkg/endpoints/handlers/patch.go applyJSPatch).
    """
    causes: list[Json] = error.details.get("causes") or []
    return any(cause.get("field") == "metadata.uid" for cause in causes) or (
        write.verb is Verb.JSON_PATCH and not causes
    )


def _send(client: Client, write: Write) -> Json | None:
    key, namespace = write.key, write.key.namespace or None
    if write.verb is Verb.DELETE:
        client.delete(key.resource, key.name, namespace=namespace, uid=write.uid or None)
        return None
    if isinstance(write.body, list):
        test = [{"op": "test", "path": "/metadata/uid", "value": write.uid}] if write.uid else []
        body, kind = [*test, *write.body], PatchKind.JSON
        return client.patch(key.resource, key.name, body, namespace=namespace, kind=kind, subresource=write.subresource)
    if write.verb is Verb.CREATE:
        return client.create(key.resource, write.body, namespace=namespace, subresource=write.subresource)
    body, kind = _conditional(write, write.body), PatchKind.MERGE
    return client.patch(key.resource, key.name, body, namespace=namespace, kind=kind, subresource=write.subresource)


def _conditional(write: Write, body: Json) -> Json:
    """Return a merge patch that includes the UID and the version as conditions."""
    conditions = {"uid": write.uid, "resourceVersion": write.resource_version}
    conditions = {name: value for name, value in conditions.items() if value}
    return {**body, "metadata": {**body.get("metadata", {}), **conditions}} if conditions else body
