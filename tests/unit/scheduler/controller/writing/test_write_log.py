"""Neither an outage of the API server nor a quota floods the log with failed writes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zonewise_common.kube.resources import CONFIG_MAPS
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.writing.write_log import BURST, LINES_PER_SECOND, WriteLog

if TYPE_CHECKING:
    import pytest

WRITE = Write(Verb.CREATE, ObjectKey(CONFIG_MAPS, "ns", "c"), "create", {})


def test_an_outage_takes_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Each second of a minute, 100 writes are repeated."""
    now = 0.0
    repeats = WriteLog(logging.WARNING, "is repeated", lambda: now)
    with caplog.at_level(logging.WARNING):
        for second in range(60):
            now = float(second)
            for _ in range(100):
                repeats.add(WRITE, "refused")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == BURST + int(59 * LINES_PER_SECOND)
    assert lines[0] == f"object={WRITE.key} write=create is repeated: refused"
    assert lines[-1] == f"{lines[0]} (999 others since the last line)"


def test_the_level_debug_shows_each_write(caplog: pytest.LogCaptureFixture) -> None:
    repeats = WriteLog(logging.WARNING, "is repeated", lambda: 0.0)
    with caplog.at_level(logging.DEBUG):
        for _ in range(BURST + 5):
            repeats.add(WRITE, "refused")
    assert [record.levelname for record in caplog.records] == ["WARNING"] * BURST + ["DEBUG"] * 5
