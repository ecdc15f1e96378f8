"""Which configuration of NVIDIA's device plugin the Node's label selects, if a ConfigMap has several.

The plugin's config manager watches the Node (cmd/config-manager/main.go). The agent instead requests it once in
CACHE_SECONDS. The label changes rarely and does not justify a watch of one Node for each agent.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.resources import NODES

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.resources import Resource

log = logging.getLogger(__name__)

LABEL = "nvidia.com/device-plugin.config"
CACHE_SECONDS = 300.0
"""Seconds for which the label is cached: the Node is read as often to verify its labels (publish.label_publisher)."""
RETRY_SECONDS = 30.0
"""Seconds until the next request after one has failed. The loop waits for each response."""


class NodeLabelClient(Protocol):
    """The part of a zonewise.kube Client that is needed."""

    def get(self, resource: Resource, name: str) -> dict[str, Any]:
        """Return an object."""
        ...


class NodeConfigName:
    """Requests the label of a Node, and keeps the last value if no newer one can be read."""

    def __init__(self, client: NodeLabelClient, node: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._node = node
        self._clock = clock
        self._valid_until = clock()
        self._name: str | None = None

    def get(self) -> str | None:
        """Return the name of the configuration; "" if the Node has no such label, None if that is not known yet."""
        if self._clock() >= self._valid_until:
            self._valid_until = self._clock() + self._request()
        return self._name

    def _request(self) -> float:
        """Set the name, and return the seconds for which it is valid."""
        try:
            labels: dict[str, str] = self._client.get(NODES, self._node)["metadata"].get("labels") or {}
        except KubeError as error:
            log.warning("label %s of node %s cannot be read, and %s: %s", LABEL, self._node,
                        "its value is still unknown" if self._name is None else "its last value "
                            "remains in force", error)  # fmt: skip
            return RETRY_SECONDS
        self._name = labels.get(LABEL, "")
        return CACHE_SECONDS
