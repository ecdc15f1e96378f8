"""Reads a recording line by line (controller/planning/recorder.py writes it).

    line                          what it is
    {"recording": 1, ...}         a controller starts, with an empty planner; a later one may append to the same file
    {"entry": ..., ...}           an entry fed to the planner (backfill/recording/planner_feed.py)
    {"entry": "pass", ...}        a scheduling pass begins
    {"plan": ...}                 the decisions of the pass; absent if the controller was killed before

A last line without an end is ignored: the controller is still writing it, or was killed while writing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from zonewise_common.k8s.dates import LAST_TIME
from zonewise_scheduler.backfill.recording.header import RecordingHeader, read_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Json = dict[str, Any]

_FieldTypes = dict[str, type | tuple[type, ...]]
_NUMBER = (int, float)
_WORKLOAD: _FieldTypes = {"workload": dict}
_KEY: _FieldTypes = {"key": str}
_FIELDS: dict[str, _FieldTypes] = {
    "configure": {
        **dict.fromkeys(("clusterQueues", "cohorts", "resourceFlavors", "localQueues", "topologies"), list),
        "namespaces": dict,
        "admissionChecks": (list, type(None)),
        "deviceClasses": (dict, type(None)),
    },
    "namespaces": {"changes": dict},
    "nodes": {"changes": list},
    "submit": _WORKLOAD,
    "update": _WORKLOAD,
    "adopt": _WORKLOAD,
    "withdraw": _KEY,
    "passed": {**_KEY, "at": _NUMBER},
    "confirm": _KEY,
    "forget": _KEY,
    "evict": {**_KEY, "reason": str, "at": _NUMBER},
    "finish": _KEY,
    "restore": {"checkpoint": dict, "at": (*_NUMBER, type(None))},
    "pass": {"at": _NUMBER, "maxAdmissions": int},
}
"""Fields of each entry, by name, with their types."""


class DamagedRecordingError(Exception):
    """The recording contains a line that no controller has written."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")


class RecordedEntry(NamedTuple):
    """One line of a recording."""

    line: int
    """Line number, starting at 1."""
    document: Json


class RecordedBatch(NamedTuple):
    """The entries fed to the planner up to a scheduling pass, and the decisions of that pass."""

    header: RecordingHeader | None
    """Header of the controller that starts with this batch; None if it started earlier."""
    entries: list[RecordedEntry]
    scheduling_pass: RecordedEntry | None = None
    """None if the recording ends before the pass."""
    plan: Json | None = None
    """None if the controller was killed during the pass."""


def read_batches(lines: Iterable[bytes]) -> Iterator[RecordedBatch]:
    """Yield the batches of a recording. Raises DamagedRecordingError."""
    batch = RecordedBatch(None, [])
    started = False
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            break
        document = _decoded(number, line)
        if "recording" in document:
            if started:
                yield batch
            batch, started = RecordedBatch(_header(number, document), []), True
        elif not started:
            raise DamagedRecordingError(number, 'not the first line of a recording, such as {"recording": 1, ...}')
        elif "plan" in document:
            yield batch._replace(plan=_plan(number, document, batch))
            batch = RecordedBatch(None, [])
        else:
            entry = _entry(number, document)
            if batch.scheduling_pass is not None:
                yield batch
                batch = RecordedBatch(None, [])
            if document["entry"] == "pass":
                batch = batch._replace(scheduling_pass=entry)
            else:
                batch.entries.append(entry)
    if not started:
        raise DamagedRecordingError(1, "the recording is empty")
    yield batch


def _decoded(number: int, line: bytes) -> Json:
    try:
        document: object = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedRecordingError(number, f"no JSON: {error}") from error
    if not isinstance(document, dict):
        raise DamagedRecordingError(number, f"not an object: {document!r:.80}")
    return cast("Json", document)


def _header(number: int, document: Json) -> RecordingHeader:
    try:
        return read_header(document)
    except ValueError as error:
        raise DamagedRecordingError(number, str(error)) from error


def _plan(number: int, document: Json, batch: RecordedBatch) -> Json:
    plan: object = document["plan"]
    if batch.scheduling_pass is None:
        raise DamagedRecordingError(number, "a plan without a scheduling pass before it")
    if not isinstance(plan, dict):
        raise DamagedRecordingError(number, f"plan: not an object: {plan!r:.80}")
    return cast("Json", plan)


def _entry(number: int, document: Json) -> RecordedEntry:
    name = document.get("entry")
    fields = _FIELDS.get(name) if isinstance(name, str) else None
    if fields is None:
        raise DamagedRecordingError(number, f"entry: not an entry of a planner: {name!r:.80}")
    for field, kind in fields.items():
        value = document.get(field)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise DamagedRecordingError(number, f"{name}: {field}: invalid: {value!r:.80}")
    if name in {"pass", "restore"} and not 0 <= (document.get("at") or 0) < LAST_TIME + 1:
        raise DamagedRecordingError(number, f"{name}: at: not between 1970 and 9999: {document['at']!r:.80}")
    return RecordedEntry(number, document)
