"""The command `zonewise report`."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pytest

from support.run_records import EPOCH, run_record
from zonewise.cli import main
from zonewise_scheduler.accounting.run_record import encode_record

if TYPE_CHECKING:
    from pathlib import Path

    from zonewise_scheduler.accounting.run_record import RunRecord

EARLIER = run_record(uid="v", user="bob", name="other", ended=EPOCH - 1, outcome="failed", queue="m", started=None)


def write(directory: Path, month: str, *records: RunRecord) -> Path:
    file = directory / f"{month}.jsonl"
    file.write_bytes(b"".join(encode_record(record) + b"\n" for record in records))
    return file


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write(tmp_path, "2026-11", EARLIER)
    write(tmp_path, "2026-12", run_record())
    return tmp_path


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["report", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_usage_by_several_keys(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document: Any = json.loads(report(capsys, directory, "--by", "queue,user", "-o", "json", "--resource", "cpu"))
    assert [(each["queue"], each["user"], each["resourceHours"]) for each in document] == [
        ("l", "ada", {"cpu": 1.0}),
        ("m", "bob", {"cpu": 0.0}),
    ]
    assert [each["failedShare"] for each in document] == [0.0, 1.0]


def test_the_table_shows_hours_waits_and_used_walltime(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = report(capsys, directory, "--since", "2026-12-01").splitlines()
    hours = "CPU HOURS nvidia.com/gpu HOURS"
    assert " ".join(lines[0].split()) == f"USER JOBS FAILED EVICTED {hours} MEDIAN WAIT P95 WAIT WALLTIME USED"
    assert [line.split() for line in lines[1:]] == [["ada", "1", "0%", "0%", "1.0", "8.0", "1m", "1m", "25%"]]


def test_csv_has_the_numbers_of_json(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [row, _] = csv.DictReader(report(capsys, directory, "-o", "csv").splitlines())
    [group, _] = json.loads(report(capsys, directory, "-o", "json"))
    assert float(row["cpu hours"]) == group["resourceHours"]["cpu"]
    assert float(row["walltimeUsed"]) == group["walltimeUsed"]


def test_jobs_are_listed_by_the_time_of_their_end(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [each["name"] for each in json.loads(report(capsys, directory, "--jobs", "-o", "json"))]
    assert names == ["other", "job"]
    assert "other" not in report(capsys, directory, "--jobs", "--state", "succeeded")
    assert report(capsys, directory, "--jobs", "--user", "eve") == "no records are selected\n"
    assert len(report(capsys, directory, "--jobs", "-o", "csv").splitlines()) == 3


def test_an_invalid_record_is_named_and_the_others_count(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(directory, "2026-12", run_record())
    file.write_bytes(file.read_bytes().replace(b'"priority":0', b'"priority":-0.5') + encode_record(EARLIER) + b"\n")
    assert main(["report", str(file)]) == 1
    output = capsys.readouterr()
    assert output.err == f"zonewise: {file}: line 1: priority: Expected `int`, got `float`: -0.5\n"
    assert "bob" in output.out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--by", "age"], "'age' is not a key"),
        (["--state", "odd"], "'odd' is not a state"),
        (["--since", "soon"], "'soon' is neither a date"),
        (["--since", "2026-12-02", "--until", "2026-12-01"], "--since: must be before --until"),
    ],
)
def test_an_unusable_argument_is_named(
    arguments: list[str], problem: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["report", str(directory), *arguments])
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert problem in capsys.readouterr().err


def test_a_directory_without_records_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "contains no .jsonl files" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "absent")]) == 2
