"""The whole cluster for the page: nodes, workloads and queues as tables, and the changes of these tables.

    GET /api/v1/cluster         all rows, with the name of their version
    GET /api/v1/cluster/events  Server-Sent Events: what has changed since the version of the header Last-Event-ID

The controller's thread hands over only references: the rows of workloads, and the nodes that have changed. A thread of
the feed builds rows from them every PERIOD seconds. It runs while there are streams. Its versions cost at most
1/REST_RATIO of the CPU time of the controller's thread. Versions that cost less save up CPU time for CREDIT seconds. So
a version during which garbage is collected may cost as much as four others, and delays none.

All clients share the results of the thread. A client that reads slowly gets fewer and larger changes, or must
fetch all rows. It does not delay other clients, and costs at most one event in memory.

Source: HTML Living Standard, section 9.2 (Server-sent events).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.kube.resources import TOPOLOGIES
from zonewise_common.service.encoded_response import encode_body
from zonewise_common.service.handlers import Response, text_response
from zonewise_scheduler.controller.readapi.node_rows import (
    NODE_COLUMNS,
    RUN_COLUMNS,
    ZONE_COLUMNS,
    NodeSight,
    level_labels,
    node_row,
)
from zonewise_scheduler.controller.readapi.versioned_tables import VersionedTables
from zonewise_scheduler.controller.readapi.views import (
    cluster_queue_json,
    cohort_json,
    local_queue_json,
    workload_rows,
)
from zonewise_scheduler.controller.readapi.workload_table import WORKLOAD_COLUMNS, WorkloadTable
from zonewise_scheduler.tas.cluster_nodes import ClusterNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_common.service.encoded_response import EncodedBody
    from zonewise_common.service.handlers import Request
    from zonewise_scheduler.controller.controller import QueueController
    from zonewise_scheduler.controller.readapi.controller_call import ControllerCall
    from zonewise_scheduler.controller.readapi.node_rows import Row
    from zonewise_scheduler.controller.readapi.views import WorkloadRow
    from zonewise_scheduler.controller.status.reporter import StatusReporter
    from zonewise_scheduler.controller.types import Json

log = logging.getLogger(__name__)

CALL_TIMEOUT = 5.0
"""Seconds in which the controller must respond."""
PERIOD, REST_RATIO = 1.0, 20.0
CREDIT = 4.0
"""Seconds for which unused CPU time is saved. In any t seconds, all versions but the last cost at most
(t + CREDIT) / REST_RATIO of CPU time."""
KEEP_ALIVE = 10.0
"""Seconds without a change after which a stream sends a comment, so that a client notices a lost connection."""
_LINGER = 5.0
"""Seconds without a stream after which the thread ends."""
_TABLES = ("nodes", "workloads", "clusterQueues", "cohorts", "localQueues", "status")


class ClusterRevision(NamedTuple):
    """The data that the controller's thread hands over."""

    rows: tuple[WorkloadRow, ...]
    objects: Mapping[str, Json]
    """Workloads by key."""
    node_revision: int
    node_names: frozenset[str]
    """Names of all nodes."""
    nodes: list[NodeSight]
    """Nodes that have changed."""
    levels: tuple[str, ...]
    """Label keys of the levels above nodes."""


def take_revision(controller: QueueController, reporter: StatusReporter, node_revision: int) -> ClusterRevision:
    """Return the cluster, with the nodes that have changed since a revision. Call it in the controller's thread."""
    nodes = controller.feed.nodes
    reports = nodes if isinstance(nodes, ClusterNodes) else ClusterNodes()
    revisions = controller.nodes_revised_since(node_revision)
    return ClusterRevision(
        workload_rows(controller, reporter.notes, reporter.forecasts),
        dict(controller.workloads),
        revisions.revision,
        revisions.names,
        [NodeSight(each, reports.last_report(each.node.name)) for each in revisions.changed],
        level_labels(controller.configuration.objects(TOPOLOGIES)),
    )


class ClusterFeed:
    """Builds the tables and streams their changes. Safe for concurrent use by several threads."""

    def __init__(
        self,
        call: ControllerCall,
        reporter: StatusReporter,
        clock: Callable[[], float],
        *,
        period: float = PERIOD,
        rest_ratio: float = REST_RATIO,
    ) -> None:
        """Create a feed; `clock` returns seconds since 1970.

        `period`, in seconds, and `rest_ratio` bound the cost of the versions (see the module docstring).
        """
        self._call = call
        self._reporter = reporter
        self._clock = clock
        self._period, self._rest_ratio = period, rest_ratio
        self._lock = threading.Lock()
        self._tables = VersionedTables(f"{int(clock() * 1000):x}", _TABLES)
        self._workloads = WorkloadTable()
        self._node_revision = 0
        self._sights: dict[str, NodeSight] = {}
        """Last state of each node."""
        self._levels: tuple[str, ...] = ()
        self._next_at = 0.0
        self._paid_until = 0.0
        """Time until which CPU time is used up: all versions have cost 1/REST_RATIO of the time until then."""
        self._head: Json = {}
        self._snapshot: tuple[str, EncodedBody] | None = None
        self._streamed_at = 0.0
        """When a stream last checked for changes."""
        self._thread: threading.Thread | None = None
        self._thread_lock = threading.Lock()

    # --- requests

    def respond(self, request: Request) -> Response:
        """Return all rows."""
        try:
            with self._lock:
                self._refresh()
                if self._snapshot is None or self._snapshot[0] != self._tables.version:
                    body = self._tables.snapshot(self._head)
                    self._snapshot = self._tables.version, encode_body("application/json", body)
                encoded = self._snapshot[1]
        except TimeoutError as error:
            return text_response(503, f"{error}\n")
        return encoded.response(request)

    def stream(self, request: Request) -> Response:
        """Return a stream of the changes since the version of Last-Event-ID. It begins with the current time."""
        events = ClusterEvents(self, request.headers.get("last-event-id", ""))
        self._note_stream()
        headers = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("X-Accel-Buffering", "no"))
        begin = b'retry: 2000\nevent: clock\ndata: {"at": %.3f}\n\n' % self._clock()
        return Response(200, "text/event-stream", begin, headers, events)

    def changes(self, since: str) -> tuple[str, bytes | None]:
        """Return the current version, and the changes since another one as in VersionedTables.

        The method never waits: while a version is being built, it reports no changes.
        """
        self._note_stream()
        if not self._lock.acquire(blocking=False):
            return since, b""
        try:
            return self._tables.version, self._tables.changes(since)
        finally:
            self._lock.release()

    def refresh(self) -> None:
        """Update the tables, unless they were updated within the last period. Raises TimeoutError."""
        with self._lock:
            self._refresh()

    # --- the thread

    def _note_stream(self) -> None:
        with self._thread_lock:
            self._streamed_at = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="cluster-feed", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._thread_lock:
                if time.monotonic() > self._streamed_at + _LINGER:
                    self._thread = None
                    return
            try:
                self.refresh()
            except TimeoutError as error:
                log.warning("the page is not current: %s", error)
            except Exception:  # a defect must not end the thread: the next version may succeed
                log.exception("the page cannot be brought up to date")
            time.sleep(max(self._period / 4, self._next_at - time.monotonic()))

    def _refresh(self) -> None:
        begin = time.monotonic()
        if begin < self._next_at:
            return
        spans: list[float] = []

        def function(controller: QueueController) -> ClusterRevision:
            begin = time.thread_time()
            revision = take_revision(controller, self._reporter, self._node_revision)
            spans.append(time.thread_time() - begin)
            return revision

        revision = self._call(function, CALL_TIMEOUT)
        self._paid_until = max(self._paid_until, begin - CREDIT) + self._rest_ratio * sum(spans)
        self._next_at = max(self._due_after(begin), self._paid_until)
        snapshot = self._reporter.snapshot
        queues = snapshot.queues
        self._head = {
            "at": self._clock(),
            "columns": {
                "nodes": NODE_COLUMNS, "zones": ZONE_COLUMNS, "runs": RUN_COLUMNS, "workloads": WORKLOAD_COLUMNS,
            },
            "levels": revision.levels,
        }  # fmt: skip
        self._tables.update(
            {
                "workloads": self._workloads.rows(revision.rows, revision.objects),
                "clusterQueues": {name: cluster_queue_json(each) for name, each in queues.cluster_queues.items()},
                "cohorts": {name: cohort_json(each) for name, each in queues.cohort_tree.items()},
                "localQueues": {key: local_queue_json(each) for key, each in queues.local_queues.items()},
                "status": {"leads": snapshot.leads},
            },
            {"nodes": self._node_rows(revision)},
        )

    def _due_after(self, begin: float) -> float:
        """Return when the next version is due. A late one does not delay others, unless it is a whole period late."""
        is_punctual = begin < self._next_at + self._period
        return (self._next_at if is_punctual else begin) + self._period

    def _node_rows(self, revision: ClusterRevision) -> dict[str, Row | None]:
        """Return the rows of nodes that have changed; of all nodes if the levels have changed."""
        changed = {sight.revision.node.name: sight for sight in revision.nodes}
        gone = self._sights.keys() - revision.node_names
        self._sights = {name: sight for name, sight in self._sights.items() if name not in gone} | changed
        self._node_revision = revision.node_revision
        if revision.levels != self._levels:
            self._levels = revision.levels
            changed = self._sights
        return {**dict.fromkeys(gone), **{name: node_row(sight, revision.levels) for name, sight in changed.items()}}


class ClusterEvents:
    """The stream of one client. It keeps no queue of events: each event contains the changes since the last one."""

    def __init__(self, feed: ClusterFeed, version: str) -> None:
        """Create a stream; `version`: the version that the client has."""
        self._feed = feed
        self._version = version
        self._sent_at = time.monotonic()

    def __call__(self) -> bytes | None:
        """Return the next event, a comment, or an empty result."""
        version, changes = self._feed.changes(self._version)
        if changes == b"":
            return self._comment()
        self._sent_at, self._version = time.monotonic(), version
        if changes is None:
            return b"event: reset\ndata: {}\n\n"
        return b"id: %b\nevent: changes\ndata: %b\n\n" % (version.encode(), changes)

    def _comment(self) -> bytes:
        now = time.monotonic()
        if now < self._sent_at + KEEP_ALIVE:
            return b""
        self._sent_at = now
        return b": no change\n\n"
