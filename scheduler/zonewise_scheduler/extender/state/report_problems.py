"""Publishes problems of reports: as metrics by kind, and as an Event on the node, once for each distinct problem.

The name of an Event is derived from the node and the problem. So the API server rejects a second one, even after a
restart of the extender. A thread writes at most EVENTS_PER_SECOND Events, and drops Events if too many wait.
"""

from __future__ import annotations

import hashlib
import logging
import queue
import threading
from collections import Counter
from typing import TYPE_CHECKING

from zonewise_common.kube.errors import AlreadyExists, KubeError
from zonewise_common.kube.events import Occurrences, event, node_reference, utc_now
from zonewise_common.kube.resources import EVENTS
from zonewise_scheduler.admission.report.problem_kinds import problem_kind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.extender.objects.api_objects import PublishedReport

log = logging.getLogger(__name__)

EVENTS_PER_SECOND = 2.0
COMPONENT = "zonewise-scheduler"
REASON = "InvalidReport"
_MAX_WAITING = 256
_STOP_TIMEOUT = 0.5
"""Seconds."""

_Problem = tuple[str, str, str]
"""Node, kind and message."""


class ReportProblems:
    """See the module. Writes Events while the context is entered."""

    def __init__(self, client: Client, *, pause: float = 1 / EVENTS_PER_SECOND) -> None:
        """Take the seconds between two Events."""
        self._client = client
        self._pause = pause
        self._lock = threading.Lock()
        self._problems: dict[str, dict[str, str]] = {}  # by node: the first problem of each kind
        self._totals = Counter[str]()
        self._waiting: queue.Queue[_Problem] = queue.Queue(_MAX_WAITING)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="report-problems", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_STOP_TIMEOUT)

    def update_report(self, old: PublishedReport | None, new: PublishedReport | None) -> None:
        """Handle a new, changed or removed report."""
        published = new or old
        if published is None:
            return
        node = published.report.node
        problems: dict[str, str] = {}
        for problem in published.report.problems if new is not None else ():
            problems.setdefault(problem_kind(problem), problem)
        with self._lock:
            before = self._problems.pop(node, {})
            if problems:
                self._problems[node] = problems
            appeared = [(kind, problem) for kind, problem in problems.items() if before.get(kind) != problem]
            self._totals.update(kind for kind, _ in appeared)
        for kind, problem in appeared:
            try:
                self._waiting.put_nowait((node, kind, problem))
            except queue.Full:
                log.warning("node=%s too many Events are waiting, so one is dropped: %s", node, problem)

    def nodes_by_kind(self) -> Mapping[str, int]:
        """Return how many reports have a problem of each kind at present."""
        with self._lock:
            return Counter(kind for problems in self._problems.values() for kind in problems)

    def totals(self) -> Mapping[str, int]:
        """Return how many problems of each kind have appeared."""
        with self._lock:
            return dict(self._totals)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                problem = self._waiting.get(timeout=0.2)
            except queue.Empty:
                continue
            try:
                self._client.create(EVENTS, _event(*problem))
            except AlreadyExists:
                pass
            except KubeError as error:
                log.warning("node=%s an Event cannot be written: %s", problem[0], error)
            except Exception:  # a bug must not end the loop
                log.exception("node=%s an Event cannot be written", problem[0])
            self._stopping.wait(self._pause)


def _event(node: str, kind: str, problem: str) -> dict[str, Any]:
    now = utc_now()
    digest = hashlib.sha256(f"{kind} {problem}".encode(errors="replace")).hexdigest()[:16]
    message = f"zonewise: the NodeResourceTopology of this node is damaged: {problem}"
    seen = Occurrences(now, now)
    return event(node_reference(node), digest, COMPONENT, REASON, message, event_type="Warning", seen=seen)
