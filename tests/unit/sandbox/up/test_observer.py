"""An observer of a cluster: nothing in the cluster changes, and each error is one line."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import create_autospec
from urllib.parse import urlsplit

import pytest

from support.waiting import eventually
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.up.kubeconfig import kubeconfig, written_kubeconfig
from zonewise_sandbox.up.node_descriptions import parse_nodes
from zonewise_sandbox.up.observer import ObserverError, open_observer
from zonewise_sandbox.up.ports import reserved_port
from zonewise_sandbox.up.shipped_objects import NodeObjects, definitions, queue_objects

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

JOB: dict[str, Any] = {
    "metadata": {"name": "held", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "default"}},
    "spec": {
        "suspend": True,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}},
    },
}
PLURALS = {"Topology": "topologies", "ResourceFlavor": "resourceflavors", "ClusterQueue": "clusterqueues",
           "LocalQueue": "localqueues"}  # fmt: skip


def shown(url: str, path: str) -> Any:
    with contextlib.closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())


def test_nothing_is_written() -> None:
    """Not even the writes that a leader makes at once occur: a Job's Workload, and the status of its queue."""
    nodes = parse_nodes("1xxeon-8358")
    with ApiServer(crds=definitions()) as server:
        server.create("", "nodes", NodeObjects("2026-01-01T00:00:00Z").node(nodes.nodes[0]))
        for obj in queue_objects(nodes):
            server.create("kueue.x-k8s.io", PLURALS[obj["kind"]], obj)
        server.create("batch", "jobs", JOB)
        version = server.store.version
        with written_kubeconfig(server.url, "") as path, open_observer(path, "", 0, threading.Event) as observer:
            eventually(lambda: shown(observer.status_url, "/api/v1/queues")["clusterQueues"])
            assert shown(observer.status_url, "/api/v1/workloads")["items"] == []
        assert server.store.version == version


@pytest.mark.parametrize(
    ("context", "message"),
    [("", "the cluster cannot be read: .*refused"), ("other", "other")],
)
def test_what_is_wrong(tmp_path: Path, context: str, message: str) -> None:
    """There is no server, or no such context."""
    file = tmp_path / "config"
    with reserved_port() as port:
        file.write_text(kubeconfig(f"http://127.0.0.1:{port}"))
        with pytest.raises(ObserverError, match=message), open_observer(str(file), context, 0, threading.Event):
            pass


@contextlib.contextmanager
def ready_program() -> Generator[int]:
    """Yield the port of a program that reports readiness, as the controller of another cluster does."""
    with http.server.HTTPServer(("127.0.0.1", 0), _Ready) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


class _Ready(http.server.BaseHTTPRequestHandler):
    """Responds once the observer's own controller has ended."""

    def do_GET(self) -> None:
        eventually(lambda: "controller" not in [thread.name for thread in threading.enumerate()])
        self.send_response(200)
        self.end_headers()


@contextlib.contextmanager
def empty_cluster() -> Generator[str]:
    """Yield the kubeconfig of a cluster without nodes."""
    with ApiServer(crds=definitions()) as server, written_kubeconfig(server.url, "") as path:
        yield path


def test_a_port_of_another_program_is_rejected() -> None:
    """Otherwise the page would show another cluster."""
    with (
        empty_cluster() as path,
        ready_program() as port,
        pytest.raises(ObserverError, match=rf"port {port} is in use: .* with --status-port \(0: any free one\)"),
        open_observer(path, "", port, threading.Event),
    ):
        pass


def test_a_port_that_another_program_takes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other program reports readiness, and the observer's own controller has ended."""
    with empty_cluster() as path, ready_program() as port:
        reservation = create_autospec(reserved_port, return_value=contextlib.nullcontext(port))
        monkeypatch.setattr("zonewise_sandbox.up.ports.reserved_port", reservation)
        with pytest.raises(ObserverError, match="in use"), open_observer(path, "", port, threading.Event):
            pass
