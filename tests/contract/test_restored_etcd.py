"""A reflector and a real API server that is unavailable for a while, and whose etcd is restored from a backup."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, Any

from support.apiserver import RealServer, real_apiserver
from support.kube_faults import as_dict
from support.waiting import eventually
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.reflector import Reflector, Selection, WatchTimes
from zonewise_common.kube.resources import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


_TIMES = WatchTimes(idle_timeout=5.0)
"""A silent watch counts as dead sooner than by default, so that the test takes only seconds."""


class Copy:
    """A reflector, and the objects that result from its changes."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.mirror: dict[str, dict[str, Any]] = {}
        self.reflector = Reflector(
            client, CONFIG_MAPS, as_dict, self._update, selection=Selection(namespace), times=_TIMES
        )

    def _update(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        if old is not None:
            del self.mirror[old["metadata"]["name"]]
        if new is not None:
            self.mirror[new["metadata"]["name"]] = new

    def is_right(self) -> bool:
        """Return whether it has exactly the objects of the server."""
        listed = self.client.list(CONFIG_MAPS, namespace=self.namespace).items
        expected = {item["metadata"]["name"]: item["data"] for item in listed}
        return {name: item["data"] for name, item in dict(self.mirror).items()} == expected

    def write(self, name: str, text: str) -> None:
        self.client.apply(CONFIG_MAPS, config_map(name, text), field_manager="test", namespace=self.namespace)


def config_map(name: str, text: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}


@contextlib.contextmanager
def copying(server: RealServer) -> Generator[Copy]:
    client = Client(Config.from_url(server.url, server.token, ca=server.ca))
    copy = Copy(client, server.new_namespace())
    copy.write("a", "before")
    copy.reflector.start()
    try:
        eventually(copy.is_right)
        yield copy
    finally:
        copy.reflector.close()
        client.close()


def stop(server: RealServer) -> None:
    server.apiserver.kill()
    server.etcd.kill()


def start(server: RealServer) -> None:
    server.etcd.start()
    server.apiserver.start()
    server.wait_until_ready()


def restore(server: RealServer, backup: Path) -> None:
    """Replace etcd's files with those of a backup."""
    shutil.rmtree(server.directory / "etcd")
    shutil.copytree(backup, server.directory / "etcd")


def test_objects_with_lower_versions_are_observed() -> None:
    """Objects written after the backup disappear, and objects written after the restoration appear."""
    with real_apiserver() as server, copying(server) as copy:
        stop(server)
        backup = server.directory / "backup"
        shutil.copytree(server.directory / "etcd", backup)
        start(server)
        eventually(lambda: copy.reflector.age == 0.0)
        for index in range(200):
            copy.write("a", f"lost {index}")
        copy.write("lost", "too")
        eventually(copy.is_right)
        highest = copy.reflector.resource_version
        stop(server)
        eventually(lambda: copy.reflector.age > 0.0)
        restore(server, backup)
        start(server)
        copy.write("b", "after")
        eventually(lambda: set(copy.mirror) == {"a", "b"} and copy.is_right())
        assert copy.mirror["a"]["data"] == {"text": "before"}
        assert copy.reflector.resource_version < highest
        copy.write("a", "after")
        eventually(copy.is_right)
        assert copy.reflector.age == 0.0
