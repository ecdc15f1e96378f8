"""An upgrade changes nothing: the current code continues the queue that each recorded version has left.

Recordings are only added, and never changed. If the current code writes other fields than the newest recording shows,
record it under the version that will write them: `python -m support.version_queue VERSION` in tests/. Versions that run
side by side read each other's objects too, so a field that an older version needs must not go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.live_queue import LiveQueue
from support.version_queue import DIRECTORY, VersionQueue, decode, play_story, summary_of, written_fields
from zonewise_scheduler.backfill.forecast.document import make_forecast_document
from zonewise_scheduler.controller.planning.checkpoint_object import read_config_map, read_forecasts

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

RECORDINGS = sorted(DIRECTORY.glob("*.json"), key=lambda file: [int(number) for number in file.stem.split(".")])


def reject(write: Write) -> Outcome:
    raise AssertionError(f"a successor writes: {write}")


@pytest.mark.parametrize(
    "recorded", [decode(file.read_text()) for file in RECORDINGS], ids=[f.stem for f in RECORDINGS]
)
def test_a_successor_continues_the_queue_without_a_write(recorded: VersionQueue) -> None:
    queue = LiveQueue(lambda: recorded.objects, reject, now=lambda: recorded.now)
    queue.controller.lead(True, read_config_map(recorded.checkpoint))
    assert not queue.step()
    assert summary_of(queue.controller.feed.state) == recorded.summary
    assert not queue.controller.invalid


@pytest.mark.parametrize(
    "recorded", [decode(file.read_text()) for file in RECORDINGS], ids=[f.stem for f in RECORDINGS]
)
def test_a_successor_knows_what_forecasts_have_learned(recorded: VersionQueue) -> None:
    history = read_forecasts(recorded.checkpoint)
    assert history is not None
    document = make_forecast_document(history)
    assert (len(document["arrivals"]), len(document["runs"])) == (4, 1)


def test_the_newest_recording_shows_what_the_current_code_writes() -> None:
    newest = decode(RECORDINGS[-1].read_text())
    current = play_story()
    assert written_fields(current) == written_fields(newest)
    assert current.summary == newest.summary
