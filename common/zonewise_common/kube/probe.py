"""Probing for a kind that an API server may not serve: a custom resource may be missing, or a feature gate disabled."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from zonewise_common.kube.errors import ApiError, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource

PROBE_PERIOD = 30.0
"""Seconds between probes: objects of a new custom resource may be unknown for this long."""
_NO_NAME = "zonewise-probe"
"""The probe lists only objects of this name, so it gets at most one."""


def probe(client: Client, resource: Resource) -> None:
    """Request a list of a kind.

    Raises NotFound if it is not served, Forbidden if it may not be read, or another KubeError.
    """
    client.list(resource, field_selector=f"metadata.name={_NO_NAME}", page=0)


def first_served(client: Client, versions: Sequence[Resource]) -> Resource:
    """Return the first of several versions of a kind that is served, as by probe().

    Raises NotFound if none is served, or another KubeError.
    """
    *preferred, last = versions
    for version in preferred:
        with suppress(NotFound):
            probe(client, version)
            return version
    probe(client, last)
    return last


def can_create(client: Client, resource: Resource, namespace: str) -> bool:
    """Return whether objects of a kind can be created in a namespace: it is served, and is not being deleted.

    The request is a dry run with an incomplete object. Before the server validates the object, it rejects all creations
    of a kind that is being deleted (apiextensions-apiserver pkg/apiserver/customresource_handler.go serveResource).
    Raises TransportError without a response.
    """
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": _NO_NAME, "namespace": namespace},
    }
    try:
        client.create(resource, body, dry_run=True)
    except ApiError as error:
        return error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}
    return True
