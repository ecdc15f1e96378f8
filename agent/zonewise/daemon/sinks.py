"""Where what was found goes: to the API server, each object by a thread of its own, or to a file."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from zonewise.objects.yaml_text import render_yaml
from zonewise.publish.label_publisher import LabelPublisher
from zonewise.publish.node_feature import LabelTarget
from zonewise.publish.nrt_publisher import NrtPublisher
from zonewise.publish.worker import PublishWorker
from zonewise.publish.write_result import NO_WRITE, WriteResult
from zonewise_common.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.daemon.metrics import AgentMetrics
    from zonewise.daemon.settings import Settings
    from zonewise.daemon.status import Snapshot, Status
    from zonewise_common.kube.client import Client

log = logging.getLogger(__name__)


class PublishingSink:
    """Publishes one object of each snapshot by a worker, and counts what is sent."""

    def __init__(
        self,
        name: str,
        publish: Callable[[Snapshot], WriteResult],
        has_object: Callable[[Snapshot], bool],
        status: Status,
        meters: AgentMetrics,
    ) -> None:
        """Make a sink for the object `name`; snapshots that have none, by `has_it`, are passed over."""
        self.name = name
        self._publish = publish
        self._has_it = has_object
        self._status = status
        self._meters = meters
        self._worker: PublishWorker[Snapshot] = PublishWorker(name, self._send, self._failed)
        self._worker.start()

    def submit(self, snapshot: Snapshot) -> None:
        """Have the object published, if there is one."""
        if self._has_it(snapshot):
            self._worker.submit(snapshot)

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


def nrt_sink(client: Client, status: Status, meters: AgentMetrics) -> PublishingSink:
    """Return the sink of the NodeResourceTopology."""
    publisher = NrtPublisher(client)

    def publish(snapshot: Snapshot) -> WriteResult:
        return publisher.publish(snapshot.nrt) if snapshot.nrt is not None else NO_WRITE

    return PublishingSink("nrt", publish, lambda snapshot: snapshot.nrt is not None, status, meters)


def labels_sink(client: Client, settings: Settings, status: Status, meters: AgentMetrics) -> PublishingSink:
    """Return the sink of the labels; raw features for NFD's rules go with them."""
    place = LabelTarget(settings.node_name, settings.namespace, settings.pod_name)
    publisher = LabelPublisher(client, place, mode=settings.publish_labels)
    told: set[str] = set()

    def publish(snapshot: Snapshot) -> WriteResult:
        published = publisher.publish(snapshot.labels or {}, snapshot.features)
        for problem in published.problems:
            if problem not in told:
                log.warning("%s", problem)
        told.clear()
        told.update(published.problems)
        return WriteResult(" ".join(published.writes), published.bytes) if published.writes else NO_WRITE

    return PublishingSink("labels", publish, lambda snapshot: snapshot.labels is not None, status, meters)


class FileSink:
    """Writes the objects as YAML documents, at each change, to a file or to standard output."""

    name = "file"

    def __init__(self, path: str, status: Status) -> None:
        """Write to the path; "-" is standard output."""
        self._path = path
        self._status = status
        self._last = ""
        self._nrt: dict[str, Any] | None = None
        self._trouble = ""

    def submit(self, snapshot: Snapshot) -> None:
        """Write what is new. A file that cannot be written is logged, and tried again the next time.

        While the kubelet is away, what it told before stays: that nothing is known is not that nothing is there.
        """
        self._nrt = snapshot.nrt or self._nrt
        text = "".join(f"---\n{render_yaml(document)}" for document in documents(snapshot._replace(nrt=self._nrt)))
        try:
            if text != self._last:
                self._write(text)
        except OSError as error:
            self._complain(f"cannot write to {self._path}: {error.strerror or error}")
            return
        self._last, self._trouble = text, ""
        if snapshot.nrt is not None:
            self._status.published(self.name)

    def _complain(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("%s", trouble)
        self._trouble = trouble

    def _write(self, text: str) -> None:
        if self._path == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        path = os.path.realpath(self._path)  # a link stays one, and what it leads to is written
        if os.path.exists(path) and not os.path.isfile(path):
            # a device or a FIFO, such as /dev/null or /dev/stderr, is written to, never replaced
            with open(path, "w", encoding="utf-8") as special:
                special.write(text)
            return
        # a reader sees the old file or the new one, never a part
        directory = os.path.dirname(path)
        handle, temporary = tempfile.mkstemp(dir=directory, prefix=".zonewise-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise


def documents(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return what is published of a snapshot: the NodeResourceTopology, and the labels as a Node to apply."""
    found = [snapshot.nrt] if snapshot.nrt is not None else []
    if snapshot.labels is not None:
        node = {"name": snapshot.node_name, "labels": snapshot.labels}
        found.append({"apiVersion": "v1", "kind": "Node", "metadata": node})
    return found
