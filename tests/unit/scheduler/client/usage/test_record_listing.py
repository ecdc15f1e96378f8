"""Listings of records."""

from __future__ import annotations

from support.run_records import run_record
from zonewise_scheduler.accounting.run_record import RunRecord
from zonewise_scheduler.client.usage.record_listing import list_records, record_rows


def test_the_document_has_all_fields_of_a_record() -> None:
    [document] = list_records([run_record()], []).document
    assert len(document) == len(RunRecord.__struct_fields__)
    assert (document["user"], document["podSets"][0]["pods"]) == ("ada", 2)


def test_a_job_that_never_started_has_no_times_of_a_run() -> None:
    [table] = list_records([run_record(started=None, user=None)], []).tables
    cells = dict(zip((column.header for column in table.columns), (cell.text for cell in table.rows[0]), strict=True))
    assert (cells["USER"], cells["STARTED"], cells["WAITED"], cells["RUN"]) == ("-", "", "", "")


def test_csv_has_a_row_for_each_record() -> None:
    names, row = record_rows([run_record(user=None)])
    values = dict(zip(names, row, strict=True))
    assert (values["name"], values["user"], values["pods"], values["outcome"]) == ("job", "", "2", "succeeded")
