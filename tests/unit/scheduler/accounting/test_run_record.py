"""The line of a record."""

from __future__ import annotations

import msgspec
import pytest

from support.run_records import HOUR, run_record
from zonewise_scheduler.accounting.run_record import LINE_START, decode_record, encode_record


def test_a_record_survives_its_line() -> None:
    for record in (run_record(), run_record(user=None, admitted=None, started=None, walltime=None, pod_sets=())):
        line = encode_record(record)
        assert decode_record(line) == record
        assert line.startswith(LINE_START)
        assert b"\n" not in line


def test_times_follow_from_the_start() -> None:
    assert (run_record().wait, run_record().run_time, run_record().pods) == (60.0, HOUR, 2)
    assert (run_record(started=None).wait, run_record(started=None).run_time) == (None, 0.0)


def test_an_invalid_field_is_named() -> None:
    line = encode_record(run_record()).replace(b'"outcome":"succeeded"', b'"outcome":"great"')
    with pytest.raises(msgspec.DecodeError, match="outcome"):
        decode_record(line)
