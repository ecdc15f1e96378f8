"""The probe of a kind that an API server need not serve: a custom resource may be missing, and a gate may be off."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource

PROBE_PERIOD = 30.0
"""Seconds between probes: for so long, objects of a new custom resource may be unknown."""
_NO_NAME = "zonewise-probe"
"""A probe lists the objects of this name: none, or a single one."""


def probe(client: Client, resource: Resource) -> None:
    """Request a list of a kind. Raises NotFound: it is not served; Forbidden: it may not be read; and KubeError."""
    client.list(resource, field_selector=f"metadata.name={_NO_NAME}", page=0)
