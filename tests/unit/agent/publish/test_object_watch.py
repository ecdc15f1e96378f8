"""The watch of one object, on an API server."""

from __future__ import annotations

import math
import queue
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.waiting import PATIENCE, eventually
from zonewise.publish.object_watch import NEVER_OBSERVED, ObjectWatch
from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.client import Client, PatchKind
from zonewise_common.kube.reflector import WatchTimes
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator

CRD = Path(__file__).parents[4] / "manifests" / "base" / "noderesourcetopologies.yaml"
TIMES = WatchTimes(backoff=Backoff(base=0.01, cap=0.05))


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(crds=[CRD]) as running:
        yield running


def create(client: Client, name: str) -> int:
    kind = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    made = client.create(NODE_RESOURCE_TOPOLOGIES, {**kind, "metadata": {"name": name}, "zones": []})
    return int(made["metadata"]["resourceVersion"])


def test_only_changes_of_the_object_are_observed(server: ApiServer) -> None:
    """Creation, edit and deletion are observed, each with the version after it."""
    observed: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    with closing(Client(server.client_config())) as client:
        version = create(client, "n1")
        watch = ObjectWatch(
            client, NODE_RESOURCE_TOPOLOGIES, "n1", lambda: observed.put(watch.observation.version), times=TIMES
        )
        assert (watch.observation, watch.age) == (NEVER_OBSERVED, math.inf)
        with closing(watch):
            watch.start()
            watch.start()  # the second call has no effect
            assert observed.get(timeout=PATIENCE) == version
            create(client, "n2")
            edited = client.patch(NODE_RESOURCE_TOPOLOGIES, "n1", {"attributes": []}, kind=PatchKind.MERGE)
            assert observed.get(timeout=PATIENCE) == int(edited["metadata"]["resourceVersion"])
            client.delete(NODE_RESOURCE_TOPOLOGIES, "n1")
            assert observed.get(timeout=PATIENCE) is None
            eventually(lambda: watch.age == 0)
        assert observed.empty()


def test_a_pause_ends_with_the_watch(server: ApiServer) -> None:
    """A closed watch neither waits nor starts."""
    with closing(Client(server.client_config())) as client:
        watch = ObjectWatch(client, NODE_RESOURCE_TOPOLOGIES, "n1", lambda: None, times=TIMES)
        assert watch.pause(0.0)
        assert watch.pause(0.01)
        watch.close()
        assert not watch.pause(60.0)
        watch.start()
        assert watch.age == math.inf
