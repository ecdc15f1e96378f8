"""Records in files and in logs."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.loggers import restored_loggers
from support.run_records import run_record
from zonewise_common.service import logs
from zonewise_scheduler.accounting.record_lines import RecordReader
from zonewise_scheduler.accounting.run_record import LOGGER, encode_record

LINE = encode_record(run_record()) + b"\n"


@pytest.mark.parametrize("style", ["text", "json"])
def test_records_are_found_in_the_log_of_the_controller(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Another message may quote a whole line of the log, which users have chosen: this is not a record."""
    with restored_loggers():
        logs.configure_logging("info", style)
        logging.getLogger(LOGGER).info("%s", LINE.decode().rstrip())
        quoted = f"INFO    {LOGGER}: {LINE.replace(b'u', b'v').decode().rstrip()}"
        logging.getLogger("zonewise_scheduler.other").info("%s", quoted)
    log = capsys.readouterr().err
    for prefix in ("", "[pod/zonewise-controller-0/controller] ", "2026-12-01T00:00:00.000000000Z "):
        lines = [f"{prefix}{line}\n".encode() for line in log.splitlines()]
        assert len(lines) == 2
        reader = RecordReader()
        assert list(reader.read(lines, "log")) == [run_record()]
        assert not reader.problems


def test_a_run_counts_once_however_often_it_is_recorded() -> None:
    reader = RecordReader()
    again = encode_record(run_record(ended=run_record().ended + 1)) + b"\n"
    assert list(reader.read([LINE, again], "a")) == [run_record()]
    assert list(reader.read([LINE], "b")) == []
    assert reader.duplicates == 2
    next_run = run_record(admitted=run_record().ended)
    assert list(reader.read([encode_record(next_run)], "c")) == [next_run]


@given(st.integers(0, len(LINE) - 2))
def test_a_torn_last_line_is_skipped_silently(length: int) -> None:
    reader = RecordReader()
    other = encode_record(run_record(uid="v")) + b"\n"
    assert list(reader.read([other, LINE[:length]], "f")) == [run_record(uid="v")]
    assert not reader.problems


def test_an_invalid_record_is_reported_with_file_line_field_and_value() -> None:
    reader = RecordReader()
    invalid = LINE.replace(b'"priority":0', b'"priority":"high"')
    assert list(reader.read([b"noise\n", invalid, LINE], "2026-12.jsonl")) == [run_record()]
    [problem] = reader.problems
    assert str(problem) == "2026-12.jsonl: line 2: priority: Expected `int`, got `str`: 'high'"
