"""Records in the log and in files by month."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from support.run_records import EPOCH, run_record
from zonewise_scheduler.accounting.record_lines import RecordReader
from zonewise_scheduler.accounting.run_record import LOGGER, encode_record
from zonewise_scheduler.controller.accounting.record_writer import MAX_AGE, MonthFiles, RecordWriter

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from zonewise_scheduler.accounting.run_record import RunRecord

RECORD = run_record()


def write(directory: str, *records: RunRecord, to_log: bool = False) -> None:
    with RecordWriter(directory, to_log=to_log, clock=lambda: RECORD.ended) as writer:
        for record in records:
            writer.submit(record)


def read(file: Path) -> list[RunRecord]:
    reader = RecordReader()
    with file.open("rb") as lines:
        records = list(reader.read(lines, str(file)))
    assert not reader.problems
    assert not reader.duplicates
    return records


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == LOGGER]


def test_a_stop_writes_all_records_to_the_files_of_their_months(tmp_path: Path) -> None:
    earlier = run_record(uid="v", ended=EPOCH - 1)
    write(str(tmp_path / "new"), RECORD, earlier)
    assert read(tmp_path / "new" / "2026-12.jsonl") == [RECORD]
    assert read(tmp_path / "new" / "2026-11.jsonl") == [earlier]


def test_a_restart_writes_and_logs_no_run_twice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=LOGGER)
    write(str(tmp_path), RECORD, RECORD, to_log=True)
    other = run_record(uid="v")
    write(str(tmp_path), RECORD, other, to_log=True)
    assert read(tmp_path / "2026-12.jsonl") == [RECORD, other]
    assert logged(caplog) == [encode_record(each).decode() for each in (RECORD, other)]


def test_without_files_only_recent_runs_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=LOGGER)
    write("", run_record(uid="v", ended=RECORD.ended - MAX_AGE - 1), RECORD, RECORD, to_log=True)
    assert logged(caplog) == [encode_record(RECORD).decode()]
    write("", RECORD)
    assert len(logged(caplog)) == 1


def test_a_torn_line_is_cut_before_the_next_record(tmp_path: Path) -> None:
    file, other = tmp_path / "2026-12.jsonl", run_record(uid="v")
    file.write_bytes(encode_record(RECORD) + b"\n" + encode_record(other)[:40])
    write(str(tmp_path), other)
    assert read(file) == [RECORD, other]


def test_a_full_disk_is_reported_once_and_leaves_whole_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, write_bytes, space = MonthFiles(tmp_path), os.write, [100]

    def write_what_fits(file: int, content: bytes) -> int:
        if not space[0]:
            raise OSError(28, "No space left on device")
        written = write_bytes(file, content[: space[0]])
        space[0] -= written
        return written

    monkeypatch.setattr("os.write", write_what_fits)
    caplog.set_level(logging.INFO)
    for uid in ("u", "v"):
        assert files.append(run_record(uid=uid), encode_record(run_record(uid=uid)))
    space[0] = 10_000
    last = run_record(uid="w")
    assert files.append(last, encode_record(last))
    files.close()
    assert read(tmp_path / "2026-12.jsonl") == [last]
    assert [each.getMessage() for each in caplog.records] == [
        f"records are missing in {tmp_path}/2026-12.jsonl: No space left on device",
        "records are written again",
    ]


def test_an_unusable_directory_does_not_stop_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "file").touch()
    write(str(tmp_path / "file"), RECORD, to_log=True)
    assert logged(caplog) == [encode_record(RECORD).decode()]
    assert "records are missing in" in caplog.text
