"""Probing for a kind that an API server may not serve: a custom resource may be missing, or a feature gate disabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
