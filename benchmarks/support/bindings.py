"""Records when pods are bound, as a watch of the API server shows it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import msgspec

from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.resources import PODS

if TYPE_CHECKING:
    from support.e2e.cluster import Cluster


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    spec: _Spec


class Bindings:
    """Watches pods that are bound to a node while the context is entered."""

    def __init__(self, cluster: Cluster) -> None:
        self.times: list[float] = []
        """When each pod was first seen on a node, by time.monotonic()."""
        self.first_by_node: dict[str, float] = {}
        """When the first pod was seen on each node."""
        server = cluster.server
        self._client = Client(Config.from_url(server.url, server.token, ca=server.ca))
        version = self._client.list(PODS).resource_version
        self._watch = self._client.watch(PODS, resource_version=version, seconds=600, field_selector="spec.nodeName!=")
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Bindings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.abort()
        self._thread.join(5.0)
        self._client.close()

    def _run(self) -> None:
        try:
            for event in self._watch:
                if event.type == "ADDED":
                    self.times.append(time.monotonic())
                    node = msgspec.json.decode(event.object, type=_Pod).spec.node_name
                    self.first_by_node.setdefault(node, self.times[-1])
        except KubeError:
            return
