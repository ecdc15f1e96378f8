"""The record of one run of a workload: one line of JSON.

A run lasts from an admission to the end, the eviction or the deletion of the Workload. An evicted workload that is
admitted again has several records. Their run times therefore add up to the used time. A workload that ends before an
admission has one record without a start.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Outcome = Literal["succeeded", "failed", "timeout", "evicted", "cancelled", "replaced"]
"""timeout: a failure at the walltime. cancelled: the workload was deleted. replaced: a larger slice follows."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
VERSION = 1
LINE_START = b'{"recordVersion":'
"""The first bytes of each record, by which readers detect it."""
LOGGER = "zonewise_scheduler.accounting"
"""The logger of records."""


class PodSetRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The pods of one pod set."""

    name: str
    pods: int
    requests: dict[str, str]
    """Requests of one pod, as quantities by resource."""
    flavors: dict[str, str] = {}
    """Flavors by resource; empty before the admission."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One run. Times are seconds since 1970."""

    record_version: Literal[1] = VERSION
    namespace: str
    name: str
    """Name of the job, or of the Workload if no job owns it."""
    kind: str
    uid: str
    """UID of the Workload."""
    workload: str
    """Name of the Workload."""
    user: str | None = None
    """User who submitted the job; None: unknown."""
    queue: str
    """LocalQueue."""
    cluster_queue: str = ""
    priority: int = 0
    pod_sets: tuple[PodSetRecord, ...] = ()
    walltime: float | None = None
    """Declared run time in seconds; None: none is declared."""
    created: float
    queued: float
    """Time from which this run waited: the creation, or the last requeue."""
    admitted: float | None = None
    """Time of the quota reservation; None: there was none."""
    started: float | None = None
    """Time of the admission, after all checks; None: there was none."""
    ended: float
    evictions: int = 0
    """Number of evictions of the workload so far."""
    outcome: Outcome
    reason: str = ""
    """Reason of the eviction or the end, as in the condition of the Workload."""

    @property
    def identity(self) -> tuple[str, float | None]:
        """Return what is equal for two records of the same run."""
        return self.uid, self.admitted

    @property
    def run_time(self) -> float:
        """Return the seconds from the start to the end; 0: it never started."""
        return 0.0 if self.started is None else max(0.0, self.ended - self.started)

    @property
    def wait(self) -> float | None:
        """Return the seconds from the queueing to the start; None: it never started."""
        return None if self.started is None else max(0.0, self.started - self.queued)

    @property
    def pods(self) -> int:
        """Return the number of pods."""
        return sum(each.pods for each in self.pod_sets)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(RunRecord)


def encode_record(record: RunRecord) -> bytes:
    """Return the line of a record, without a newline."""
    return _ENCODER.encode(record)


def decode_record(line: bytes) -> RunRecord:
    """Return the record of a line. Raises msgspec.DecodeError with the field."""
    return _DECODER.decode(line)
