"""Destinations of snapshots: the API server, with one thread for each object, or a file."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.daemon.settings import Settings
from zonewise.objects.node_feature import node_feature
from zonewise.objects.yaml_text import render_yaml
from zonewise.publish.label_publisher import NODE_FEATURE, OFF, LabelPublisher
from zonewise.publish.node_feature import LabelTarget
from zonewise.publish.nrt_publisher import NO_WRITE, NrtPublisher, WriteResult
from zonewise.publish.object_watch import WATCH_TIMES, ObjectWatch
from zonewise.publish.repair_event import RepairEvent
from zonewise.publish.repair_pauses import AT_ONCE, WINDOW, RepairPauses
from zonewise.publish.worker import PublishWorker
from zonewise_common.atomic_file import replace_file
from zonewise_common.kube.errors import ApiError
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise.daemon.metrics import AgentMetrics
    from zonewise.daemon.status import Snapshot, Status
    from zonewise.publish.nrt_publisher import ForeignChange
    from zonewise.rules.types import Evaluation, Taint
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.reflector import WatchTimes

log = logging.getLogger(__name__)

_DEFAULTS = Settings()

_PERMISSIONS = {
    "health": "manifests/components/health grants this permission, and health-taint the permission to set a taint",
    "labels": "manifests/components/labels-on-node or labels-by-nfd grants this permission",
    "rules": "manifests/components/node-feature-rules grants this permission, and node-feature-taints the "
    "permission to set taints",
}
"""By object, the manifests that permit its writes: advice for the log if the API server rejects one."""


class PublishingSink:
    """Publishes one object of each snapshot through a worker, and measures the writes."""

    def __init__(
        self,
        name: str,
        publish: Callable[[Snapshot], WriteResult],
        has_object: Callable[[Snapshot], bool],
        status: Status,
        meters: AgentMetrics,
    ) -> None:
        """Create a sink for the object `name`; snapshots without the object, according to `has_object`, are ignored."""
        self.name = name
        self._publish = publish
        self._has_object = has_object
        self._status = status
        self._meters = meters
        self._worker: PublishWorker[Snapshot] = PublishWorker(
            name, self._send, self._failed, advice=_PERMISSIONS.get(name, "")
        )
        self._worker.start()

    def submit(self, snapshot: Snapshot) -> None:
        """Queue the object for publishing, if there is one."""
        if self._has_object(snapshot):
            self._worker.submit(snapshot)

    def wait(self, seconds: float) -> bool:
        """Wait until everything is published; return whether that took less than the given number of seconds."""
        return self._worker.wait_idle(seconds)

    def repeat(self) -> None:
        """Publish the newest object again."""
        self._worker.repeat()

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
        if written.repaired is not None:
            self._meters.publish_repairs.labels(self.name, written.repaired.cause).inc()
        if written.age is not None:
            self._status.published(self.name, written.age)

    def _failed(self, error: Exception) -> None:
        reason = error.reason if isinstance(error, ApiError) and error.reason else type(error).__name__
        self._meters.publish_errors.labels(self.name, reason).inc()


class NrtSink(PublishingSink):
    """Publishes the NodeResourceTopology, and publishes it again after another client has changed it."""

    def __init__(
        self, client: Client, node: str, status: Status, meters: AgentMetrics, *, watch_times: WatchTimes = WATCH_TIMES
    ) -> None:
        """Publish the object of a node. A watch of the object starts with the first publish."""
        self._watch = ObjectWatch(client, NODE_RESOURCE_TOPOLOGIES, node, self._repeat_later, times=watch_times)
        self._publisher = NrtPublisher(client, self._watch)
        self._pauses = RepairPauses()
        self._repair_event = RepairEvent(client, node)
        meters.watch_age(NODE_RESOURCE_TOPOLOGIES.plural, lambda: self._watch.age)
        super().__init__("nrt", self._publish_nrt, lambda snapshot: snapshot.nrt is not None, status, meters)

    def close(self) -> None:
        """Stop."""
        self._watch.close()
        self._meters.remove_watch_age(NODE_RESOURCE_TOPOLOGIES.plural)
        super().close()

    def _publish_nrt(self, snapshot: Snapshot) -> WriteResult:
        if snapshot.nrt is None:
            return NO_WRITE
        written = self._publisher.publish(snapshot.nrt)
        if written.repaired is not None:
            self._note_repair(written.repaired)
        self._watch.start()
        return written

    def _repeat_later(self) -> None:
        if self._watch.pause(self._pauses.pause()):
            self.repeat()

    def _note_repair(self, change: ForeignChange) -> None:
        count = self._pauses.note()
        by = f" by {change.manager}" if change.manager else ""
        log.log(
            logging.INFO if count <= AT_ONCE else logging.WARNING,
            "the NodeResourceTopology was %s%s and repaired, %d times within %.0f s; the next repair is delayed by "
            "%.0f s",
            change.cause, by, count, WINDOW, self._pauses.pause(),
        )  # fmt: skip
        self._repair_event.note(change, count)


def labels_sink(client: Client, settings: Settings, status: Status, meters: AgentMetrics) -> PublishingSink:
    """Return the sink for the labels and for the raw features that NFD's rules use."""
    target = LabelTarget(settings.node_name, settings.namespace, settings.pod_name, settings.instance)
    publisher = LabelPublisher(client, target, mode=settings.publish_labels, take_over=settings.publish_take_over)
    logged: set[str] = set()

    def publish(snapshot: Snapshot) -> WriteResult:
        published = publisher.publish(snapshot.labels or {}, snapshot.features)
        for problem in published.problems:
            if problem not in logged:
                log.warning("%s", problem)
        logged.clear()
        logged.update(published.problems)
        for path, count in published.counts:
            meters.labels_written.labels(path).set(count)
        return WriteResult(" ".join(published.writes), published.bytes) if published.writes else NO_WRITE

    return PublishingSink("labels", publish, lambda snapshot: snapshot.labels is not None, status, meters)


def rules_sink(client: Client, settings: Settings, status: Status, meters: AgentMetrics) -> PublishingSink:
    """Return the sink for what rules give besides labels: annotations, extended resources, groups, enabled taints."""
    from zonewise.publish.node_outputs import NodeOutputs
    from zonewise.publish.output_publisher import OutputPublisher
    from zonewise.publish.rule_event import RuleEvent

    publisher = OutputPublisher(client, settings.node_name, settings.rules_record())
    rule_event = RuleEvent(client, settings.node_name)
    logged: set[str] = set()

    def publish(snapshot: Snapshot) -> WriteResult:
        evaluation = snapshot.rules
        if evaluation is None:
            return NO_WRITE
        _count_rules(evaluation, meters)
        rule_event.note([outcome for outcome in evaluation.outcomes if outcome.error])
        written = publisher.publish(NodeOutputs(*_enabled_outputs(evaluation, settings), evaluation.groups))
        for problem in written.problems:
            if problem not in logged:
                log.warning("%s", problem)
        logged.clear()
        logged.update(written.problems)
        return WriteResult("node", written.bytes) if written.bytes else NO_WRITE

    return PublishingSink("rules", publish, lambda snapshot: snapshot.rules is not None, status, meters)


class _EnabledOutputs(NamedTuple):
    """The outputs besides labels that the settings let rules set."""

    annotations: Mapping[str, str]
    extended_resources: Mapping[str, str]
    taints: tuple[Taint, ...]


def _enabled_outputs(evaluation: Evaluation, settings: Settings) -> _EnabledOutputs:
    return _EnabledOutputs(
        evaluation.annotations if settings.rules_annotations else {},
        evaluation.extended_resources if settings.rules_extended_resources else {},
        evaluation.taints if settings.rules_taints else (),
    )


def withdrawal_sink(client: Client, settings: Settings, status: Status, meters: AgentMetrics) -> PublishingSink:
    """Return the sink that removes, once, the outputs of rules from the time when they were enabled."""
    from zonewise.publish.output_publisher import OutputPublisher

    publisher = OutputPublisher(client, settings.node_name, settings.rules_record())
    done = threading.Event()

    def publish(_snapshot: Snapshot) -> WriteResult:
        if done.is_set():
            return NO_WRITE
        size = publisher.withdraw()
        done.set()
        return WriteResult("node", size) if size else NO_WRITE

    return PublishingSink("rules", publish, lambda _snapshot: not done.is_set(), status, meters)


def _count_rules(evaluation: Evaluation, meters: AgentMetrics) -> None:
    outcomes = evaluation.outcomes
    failed = sum(bool(outcome.error) for outcome in outcomes)
    matched = sum(outcome.matched for outcome in outcomes)
    for state, count in (("matched", matched), ("failed", failed), ("unmatched", len(outcomes) - matched - failed)):
        meters.rules.labels(state).set(count)
    meters.rule_rejections.set(len(evaluation.rejections))


class FileSink:
    """Writes the objects as YAML documents to a file or to standard output whenever they change."""

    name = "file"

    def __init__(self, path: str, status: Status, settings: Settings = _DEFAULTS) -> None:
        """Write the objects that the settings publish to the path; "-" is standard output."""
        self._path = path
        self._settings = settings
        self._status = status
        self._last = ""
        self._nrt: dict[str, Any] | None = None
        self._last_warning = ""

    def submit(self, snapshot: Snapshot) -> None:
        """Write the documents if they changed. A file that cannot be written is logged and retried the next time.

        While the kubelet is down, the last NodeResourceTopology remains: an unknown allocation is not an empty one.
        """
        self._nrt = snapshot.nrt or self._nrt
        objects = documents(snapshot._replace(nrt=self._nrt), self._settings)
        text = "".join(f"---\n{render_yaml(document)}" for document in objects)
        try:
            if text != self._last:
                self._write(text)
        except OSError as error:
            self._warn(f"cannot write to {self._path}: {error.strerror or error}")
            return
        self._last, self._last_warning = text, ""
        if snapshot.nrt is not None or not self._settings.publish_nrt:
            self._status.published(self.name)

    def _warn(self, warning: str) -> None:
        if warning != self._last_warning:
            log.warning("%s", warning)
        self._last_warning = warning

    def _write(self, text: str) -> None:
        if self._path == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        if os.path.exists(self._path) and not os.path.isfile(self._path):
            # a device, a pipe or a FIFO, such as /dev/null or /dev/stderr, is written to and never replaced
            with open(_open_special(self._path), "w", encoding="utf-8") as special:
                special.write(text)
            return
        # a symbolic link is kept, and its target is written
        replace_file(os.path.realpath(self._path), text.encode(), 0o644)


def _open_special(path: str) -> int:
    """Return a descriptor to write to. Raises OSError, also for a FIFO without a reader: nothing waits for one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(descriptor, True)
    return descriptor


def documents(snapshot: Snapshot, settings: Settings = _DEFAULTS) -> list[dict[str, Any]]:
    """Return the objects of a snapshot that the settings publish.

    These are the NodeResourceTopology, and the labels as a Node to apply or, in the mode "nodefeature", as that object.
    Its owners are left out, since only the API server knows them.
    """
    result = [snapshot.nrt] if snapshot.nrt is not None and settings.publish_nrt else []
    result += _rule_documents(snapshot, settings)
    if snapshot.labels is None or settings.publish_labels == OFF:
        return result
    if settings.publish_labels == NODE_FEATURE:
        name, namespace = snapshot.node_name, settings.namespace
        result.append(
            node_feature(name, snapshot.labels, snapshot.features, namespace=namespace, instance=settings.instance)
        )
    else:
        node = {"name": snapshot.node_name, "labels": snapshot.labels}
        result.append({"apiVersion": "v1", "kind": "Node", "metadata": node})
    return result


def _rule_documents(snapshot: Snapshot, settings: Settings) -> list[dict[str, Any]]:
    """Return a Node with the outputs of rules besides labels; nothing if there are none."""
    if snapshot.rules is None:
        return []
    outputs = _enabled_outputs(snapshot.rules, settings)
    if not any(outputs):
        return []
    parts: dict[str, Any] = {
        "metadata": {"name": snapshot.node_name, "annotations": dict(outputs.annotations)},
        "spec": {"taints": [taint._asdict() for taint in outputs.taints]},
        "status": {"capacity": dict(outputs.extended_resources)},
    }
    return [{"apiVersion": "v1", "kind": "Node", **parts}]
