"""The parts of the program, and what it opens before it runs."""

from __future__ import annotations

import gc
import json
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from zonewise_scheduler.backfill.recording.header import RecordingHeader, read_header
from zonewise_scheduler.controller import main
from zonewise_scheduler.controller.settings import ControllerSettings
from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig
from zonewise_scheduler.quota.api.resource_settings import ResourceSettings
from zonewise_scheduler.simulator.replay.recording_reader import read_batches

if TYPE_CHECKING:
    from pathlib import Path


def record_pass(path: Path, at: float) -> None:
    """Start a controller that records a pass to a file, then stop it."""
    with ExitStack() as stack:
        recorder = main._recorder(ControllerSettings(recording=str(path)), stack)  # pyright: ignore[reportPrivateUsage]
        assert recorder is not None
        recorder.record({"entry": "pass", "at": at, "maxAdmissions": 1})


def recorded_passes(path: Path) -> list[float]:
    with path.open("rb") as file:
        passes = [batch.scheduling_pass for batch in read_batches(file)]
    return [entry.document["at"] for entry in passes if entry is not None]


@pytest.mark.parametrize("torn", [b"", b'{"entry":"pass","at":17900'])
def test_a_restart_appends_to_a_recording_after_its_last_complete_line(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "run.jsonl"
    record_pass(path, 1.0)
    with path.open("ab") as file:
        file.write(torn)
    record_pass(path, 2.0)
    assert recorded_passes(path) == [1.0, 2.0]


def test_a_recording_has_the_settings_of_the_controller(tmp_path: Path) -> None:
    """So a replay makes the same decisions."""
    settings = ControllerSettings(
        recording=str(tmp_path / "run.jsonl"),
        policy="fifo",
        reserve_after=60.0,
        fair_sharing=True,
        resources=ResourceSettings("IgnoreUndeclared"),
        admission_fair_sharing=AdmissionFairSharingConfig(60.0),
    )
    with ExitStack() as stack:
        assert main._recorder(settings, stack)  # pyright: ignore[reportPrivateUsage]
    header = read_header(json.loads((tmp_path / "run.jsonl").read_bytes()))
    assert header == RecordingHeader("fifo", 60.0, settings.quota_settings, nodes=True)


def test_a_recording_of_one_incomplete_line_is_restarted(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"recording":')
    record_pass(path, 1.0)
    assert recorded_passes(path) == [1.0]


def test_the_exit_of_the_program_scans_no_objects_for_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of jobs, the last collection of the interpreter delays the exit by seconds."""

    def stop_at_once(*_: object) -> int:
        return 0

    def keep_logging(*_: object) -> None:
        pass

    monkeypatch.setattr(main.logs, "configure_logging", keep_logging)
    monkeypatch.setattr(main, "stop_event", threading.Event)
    monkeypatch.setattr(main, "run_until_stopped", stop_at_once)
    gc.unfreeze()
    objects: list[list[int]] = [[] for _ in range(1000)]
    assert main.run_controller(ControllerSettings()) == 0
    assert gc.get_freeze_count() >= len(objects)
