"""Watches the versions of a NodeResourceTopology, and records the time of each."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES
from zonewise_common.nrt.names import ALL_PODS, FINGERPRINTS

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client


class ObservedReport(NamedTuple):
    """One version of the report."""

    moment: float
    """time.monotonic() at the arrival of its event."""
    object: dict[str, Any]


class Watcher:
    """Watches in a separate thread."""

    def __init__(self, client: Client) -> None:
        self._watch = client.watch(NODE_RESOURCE_TOPOLOGIES, resource_version="0")
        self._seen: list[ObservedReport] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def wait_for(self, fingerprint: str, seconds: float = 30.0) -> ObservedReport:
        """Return the first version whose fingerprint covers a set of pods. Raises TimeoutError."""

        def found() -> ObservedReport | None:
            return next(
                (seen for seen in self._seen if attribute(seen.object, FINGERPRINTS[ALL_PODS]) == fingerprint), None
            )

        with self._changed:
            seen = self._changed.wait_for(found, seconds)
            if seen is None:
                raise TimeoutError(f"no NodeResourceTopology of fingerprint {fingerprint} within {seconds:g} s")
            self._seen.clear()
            return seen

    def close(self) -> None:
        """Stop watching."""
        self._watch.abort()
        self._thread.join(5.0)

    def _run(self) -> None:
        try:
            for event in self._watch:
                if event.type == "BOOKMARK":
                    continue
                seen = ObservedReport(time.monotonic(), msgspec.json.decode(event.object))
                with self._changed:
                    self._seen.append(seen)
                    self._changed.notify_all()
        except KubeError:  # the normal end: close() has aborted the watch
            return


def attribute(obj: dict[str, Any], name: str) -> str:
    """Return an attribute of an object; empty if there is none of this name."""
    return next((found["value"] for found in obj.get("attributes", ()) if found["name"] == name), "")
