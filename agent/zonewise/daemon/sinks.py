"""Where what was found goes: to the API server, each object by a thread of its own, or to a file."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from zonewise.kube.errors import ApiError
from zonewise.publish.labels import LabelPublisher
from zonewise.publish.node_feature import Place
from zonewise.publish.nrt import NrtPublisher
from zonewise.publish.worker import Worker
from zonewise.publish.written import NOTHING, Written
from zonewise.report.node_feature import node_features
from zonewise.report.yaml import render_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.daemon.metrics.meters import Meters
    from zonewise.daemon.settings import Settings
    from zonewise.daemon.status import Snapshot, Status
    from zonewise.kube.client import Client

log = logging.getLogger(__name__)


class PublishingSink:
    """Publishes one object of each snapshot by a worker, and counts what is sent."""

    def __init__(
        self,
        name: str,
        publish: Callable[[Snapshot], Written],
        has_it: Callable[[Snapshot], bool],
        status: Status,
        meters: Meters,
    ) -> None:
        """Make a sink for the object `name`; snapshots that have none, by `has_it`, are passed over."""
        self.name = name
        self._publish = publish
        self._has_it = has_it
        self._status = status
        self._meters = meters
        self._worker: Worker[Snapshot] = Worker(name, self._send, self._failed)
        self._worker.start()

    def offer(self, snapshot: Snapshot) -> None:
        """Have the object published, if there is one."""
        if self._has_it(snapshot):
            self._worker.offer(snapshot)

    def wait(self, seconds: float) -> bool:
        """Wait until all is published; tell whether it was within the time."""
        return self._worker.wait_idle(seconds)

    def close(self) -> None:
        """Stop."""
        self._worker.close()

    def _send(self, snapshot: Snapshot) -> None:
        started = time.monotonic()
        written = self._publish(snapshot)
        if written.operation != "none":
            seconds = time.monotonic() - started
            self._meters.publish_bytes.labels(self.name, written.operation).observe(written.bytes)
            self._meters.publish_seconds.labels(self.name).observe(seconds)
            log.debug("%s: %s of %d bytes in %.1f ms", self.name, written.operation, written.bytes, seconds * 1000)
        self._status.published(self.name)

    def _failed(self, error: Exception) -> None:
        reason = error.reason if isinstance(error, ApiError) and error.reason else type(error).__name__
        self._meters.publish_errors.labels(self.name, reason).inc()


def nrt_sink(client: Client, status: Status, meters: Meters) -> PublishingSink:
    """Return the sink of the NodeResourceTopology."""
    publisher = NrtPublisher(client)

    def publish(snapshot: Snapshot) -> Written:
        return publisher.publish(snapshot.nrt) if snapshot.nrt is not None else NOTHING

    return PublishingSink("nrt", publish, lambda snapshot: snapshot.nrt is not None, status, meters)


def labels_sink(client: Client, settings: Settings, status: Status, meters: Meters) -> PublishingSink:
    """Return the sink of the labels; raw features for NFD's rules go with them."""
    place = Place(settings.node_name, settings.namespace, settings.pod_name)
    publisher = LabelPublisher(client, place, mode=settings.publish_labels)
    told: set[str] = set()

    def publish(snapshot: Snapshot) -> Written:
        published = publisher.publish(snapshot.labels or {}, node_features(snapshot.machine))
        for problem in published.problems:
            if problem not in told:
                log.warning("%s", problem)
        told.clear()
        told.update(published.problems)
        return Written(" ".join(published.writes), published.bytes) if published.writes else NOTHING

    return PublishingSink("labels", publish, lambda snapshot: snapshot.labels is not None, status, meters)


class FileSink:
    """Writes the objects as YAML documents, at each change, to a file or to standard output."""

    def __init__(self, path: str) -> None:
        """Write to the path; "-" is standard output."""
        self._path = path
        self._last = ""

    def offer(self, snapshot: Snapshot) -> None:
        """Write what is new. A file that cannot be written is logged, and tried again at the next change."""
        text = "".join(f"---\n{render_yaml(document)}" for document in documents(snapshot))
        if text == self._last:
            return
        try:
            self._write(text)
        except OSError as error:
            log.warning("cannot write to %s: %s", self._path, error.strerror)
        else:
            self._last = text

    def _write(self, text: str) -> None:
        if self._path == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        # a reader sees the old file or the new one, never a part
        directory = os.path.dirname(os.path.abspath(self._path))
        with tempfile.NamedTemporaryFile("w", dir=directory, prefix=".zonewise-", delete=False) as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        os.replace(file.name, self._path)


def documents(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return what is published of a snapshot: the NodeResourceTopology, and the labels as a Node to apply."""
    found = [snapshot.nrt] if snapshot.nrt is not None else []
    if snapshot.labels is not None:
        node = {"name": snapshot.node_name, "labels": snapshot.labels}
        found.append({"apiVersion": "v1", "kind": "Node", "metadata": node})
    return found
