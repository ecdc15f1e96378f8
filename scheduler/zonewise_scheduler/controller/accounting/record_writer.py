"""Writes records to the log, and to files by month, in a thread of its own: a slow disk delays no decision."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from zonewise_scheduler.accounting.record_lines import RecordReader
from zonewise_scheduler.accounting.run_record import LOGGER, RunRecord, encode_record

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)
_records_log = logging.getLogger(LOGGER)

SYNC_PERIOD = 5.0
"""Seconds after which written records are on the disk at the latest."""
MAX_AGE = 3600.0
"""Age in seconds of runs that a controller without files still logs. After a start it finds all Workloads that ended
before, and it cannot know which of them are in the log."""
_MAX_KNOWN = 100_000
_STOP_TIMEOUT = 5.0
"""Seconds for which a stop waits until all records are written."""


class RecordWriter:
    """Writes each record once. It works while the context is entered, and writes what remains when it is left."""

    def __init__(self, directory: str, *, to_log: bool, clock: Callable[[], float] = time.time) -> None:
        """Set the directory of the files; "": there are none. `clock` returns seconds since 1970."""
        self._files = MonthFiles(Path(directory)) if directory else None
        self._to_log = to_log
        self._clock = clock
        self._known: set[int] = set()
        """Hashes of the runs that were logged since the start, without files."""
        self._records: queue.SimpleQueue[RunRecord | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="accounting", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._records.put(None)
        self._thread.join(_STOP_TIMEOUT)

    def submit(self, record: RunRecord) -> None:
        """Write a record soon."""
        if self._to_log or self._files is not None:
            self._records.put(record)

    def _run(self) -> None:
        sync_at = time.monotonic() + SYNC_PERIOD
        while True:
            try:
                record = self._records.get(timeout=max(0.0, sync_at - time.monotonic()))
                if record is None:
                    break
                self._write(record)
            except queue.Empty:
                pass
            except Exception:  # a defect that one record reveals must not block the others
                log.exception("a record cannot be written")
            if time.monotonic() >= sync_at:
                sync_at = time.monotonic() + SYNC_PERIOD
                if self._files is not None:
                    self._files.sync()
        if self._files is not None:
            self._files.close()

    def _write(self, record: RunRecord) -> None:
        line = encode_record(record)
        if self._files is not None:
            is_new = self._files.append(record, line)
        else:
            is_new = hash(record.identity) not in self._known and record.ended >= self._clock() - MAX_AGE
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()  # readers drop the few duplicates that may follow
            self._known.add(hash(record.identity))
        if is_new and self._to_log:
            _records_log.info("%s", line.decode())


class MonthFiles:
    """Files of records named by the month in which runs ended, in UTC: 2026-12.jsonl."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._month = ""
        self._file: int | None = None
        """Descriptor of the open file."""
        self._known: set[int] = set()
        """Hashes of the runs in the open file."""
        self._unsynced = False
        self._problem = ""
        """Why the last record was not written; "": it was."""

    def append(self, record: RunRecord, line: bytes) -> bool:
        """Append a record unless its file has it. Return whether it is new. A failure is logged when it begins."""
        month = time.strftime("%Y-%m", time.gmtime(record.ended))
        try:
            if self._file is None or month != self._month:
                self._open(month)
            if hash(record.identity) in self._known:
                return False
            self._append(line + b"\n")
        except OSError as error:
            self._report(f"{self._directory / month}.jsonl: {error.strerror or error}")
        else:
            self._report("")
        self._known.add(hash(record.identity))
        return True

    def sync(self) -> None:
        """Wait until all appended records are on the disk."""
        if self._file is not None and self._unsynced:
            self._unsynced = False
            try:
                os.fsync(self._file)
            except OSError as error:
                self._report(f"{self._directory / self._month}.jsonl: {error.strerror or error}")

    def close(self) -> None:
        """Sync and close the open file."""
        self.sync()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self, month: str) -> None:
        self.close()
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{month}.jsonl"
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            _cut_torn_line(file)
            with path.open("rb") as lines:
                known = {hash(record.identity) for record in RecordReader().read(lines, str(path))}
        except OSError:
            os.close(file)
            raise
        self._month, self._file, self._known = month, file, known

    def _append(self, line: bytes) -> None:
        """Append a line as a whole: what a full disk leaves of it is cut."""
        if self._file is None:
            return
        end = os.fstat(self._file).st_size
        rest = line
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, end)
            raise
        self._unsynced = True

    def _report(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.error("records are missing in %s", problem)
        elif self._problem and not problem:
            log.info("records are written again")
        self._problem = problem


def _cut_torn_line(file: int) -> None:
    """Cut the line that a controller wrote when it was killed. Raises OSError."""
    end = os.fstat(file).st_size
    while end and os.pread(file, 1, end - 1) != b"\n":
        end -= 1
    os.ftruncate(file, end)
