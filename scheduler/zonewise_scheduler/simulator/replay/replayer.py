"""Feeds a recording to a planner, and compares each of its plans with the recorded one."""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_scheduler.backfill.explanation.explain import explain
from zonewise_scheduler.backfill.explanation.message import explanation_message, format_duration
from zonewise_scheduler.backfill.recording.plan_document import plan_document
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.simulator.replay.recording_reader import DamagedRecordingError, read_batches
from zonewise_scheduler.tas.cluster_nodes import ClusterNodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.backfill.recording.header import RecordingHeader
    from zonewise_scheduler.simulator.replay.recording_reader import RecordedBatch, RecordedEntry

Json = dict[str, Any]

_ENCODER = msgspec.json.Encoder(order="deterministic")
_OF_JOB = re.compile(r"(([a-z]+)-.*)-[0-9a-f]{5}")
"""Name of a job's Workload; the groups are kind and name, and the kind (controller/workloads/workload_names.py)."""
_MAX_PREFIXES = (57, 247)
"""Maximum number of characters of kind and name, in a Workload of this queue and of Kueue; longer names are
truncated."""


class SeveralWorkloadsError(Exception):
    """The name of a job matches several Workloads: jobs of two kinds, or long names with the same beginning."""

    def __init__(self, keys: Iterable[str]) -> None:
        super().__init__(f"matches several Workloads: use one of {', '.join(keys)}")


class ReplayedPass(NamedTuple):
    """One scheduling pass, as recorded and as replayed."""

    line: int
    """Line of its entry."""
    at: float
    """Seconds since 1970."""
    recorded: Json | None
    """None if the controller was killed during the pass."""
    replayed: Json

    @property
    def agrees(self) -> bool:
        """Return whether both plans are the same, byte for byte."""
        return self.recorded is not None and _ENCODER.encode(self.recorded) == _ENCODER.encode(self.replayed)


class FailedEntry(NamedTuple):
    """An entry that the planner has rejected. The planner of the live queue also rejected it, unless plans differ."""

    line: int
    message: str


class Replayer:
    """See the module."""

    def __init__(self) -> None:
        self.failed: list[FailedEntry] = []
        self._feed: PlannerFeed | None = None

    def replay(self, lines: Iterable[bytes]) -> Iterator[ReplayedPass]:
        """Yield each pass of a recording. Raises DamagedRecordingError."""
        for batch in read_batches(lines):
            feed = self._advance(batch)
            if (entry := batch.scheduling_pass) is not None:
                yield ReplayedPass(entry.line, float(entry.document["at"]), batch.plan, _run_pass(feed, entry))

    def explain(self, lines: Iterable[bytes], key: str, at: float = inf) -> str:
        """Return why a workload waited at a time, after the last pass until then; infinite means the end.

        `key`: namespace and name of the Workload or of its job. Raises DamagedRecordingError, KeyError if it is not in
        the queue then, and SeveralWorkloadsError.
        """
        now, feed = 0.0, None
        for batch in read_batches(lines):
            entry = batch.scheduling_pass
            if at < inf and entry is None:
                continue  # these entries precede a restart or the end of the recording
            if entry is not None and entry.document["at"] > at:
                break
            feed = self._advance(batch)
            if entry is not None:
                _run_pass(feed, entry)
                now = float(entry.document["at"])
        if feed is None:
            raise KeyError(key)
        return _situation(feed, key, now if at == inf else at)

    def _advance(self, batch: RecordedBatch) -> PlannerFeed:
        """Feed the entries of a batch to the planner, or to a new planner if a controller starts."""
        feed = self._feed if batch.header is None else _new_feed(batch.header)
        if feed is None:
            raise ValueError("the first batch of a recording has its header")
        self._feed = feed
        for entry in batch.entries:
            try:
                feed.apply(entry.document)
            except (ValueError, KeyError) as error:
                self.failed.append(FailedEntry(entry.line, f"{entry.document['entry']}: {error}"))
            except Exception as error:  # an entry that no controller wrote may raise anything; it ends the replay
                raise DamagedRecordingError(entry.line, f"{entry.document['entry']}: {error!r:.200}") from error
        return feed


def _new_feed(header: RecordingHeader) -> PlannerFeed:
    nodes = ClusterNodes(allow_unknown=header.allow_unknown_nodes) if header.nodes else None
    return PlannerFeed(header.backfill_policy, header.quota_settings, nodes)


def _run_pass(feed: PlannerFeed, entry: RecordedEntry) -> Json:
    return plan_document(feed.run_pass(entry.document["at"], entry.document["maxAdmissions"]))


def _situation(feed: PlannerFeed, key: str, now: float) -> str:
    """Return what a workload waits for, or how long it has run. Raises KeyError and SeveralWorkloadsError."""
    state = feed.state
    name = _workload_key(key, [*state.pending, *state.inadmissible, *state.running])
    if name not in state.running:
        return explanation_message(explain(state, name, now))
    admission = state.running[name].workload.admission
    if admission is None:
        return "runs"
    since = format_duration(now - admission.reserved_at)
    return f"runs; ClusterQueue {admission.cluster_queue} admitted it {since} before"


def _workload_key(key: str, known: Iterable[str]) -> str:
    """Return the key of a workload, or of a job's only workload. Raises KeyError and SeveralWorkloadsError."""
    matching = [other for other in known if other == key] or [other for other in known if _is_of_job(other, key)]
    if len(matching) > 1:
        raise SeveralWorkloadsError(matching)
    if not matching:
        raise KeyError(key)
    return matching[0]


def _is_of_job(workload: str, job: str) -> bool:
    """Return whether the key belongs to a job's workload; a job of another kind may have the same name."""
    namespace, _, name = workload.rpartition("/")
    job_namespace, _, job_name = job.rpartition("/")
    match = _OF_JOB.fullmatch(name)
    if match is None or namespace != job_namespace:
        return False
    return match[1] in [f"{match[2]}-{job_name}"[:length] for length in _MAX_PREFIXES]
