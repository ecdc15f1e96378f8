"""One line for each kind of failure, and one once the task works again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zonewise_common.kube.failure_log import FailureLog

if TYPE_CHECKING:
    import pytest


def test_each_kind_of_failure_is_one_warning_until_the_task_works_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    failures = FailureLog(logging.getLogger("task"), "the task fails", "the task works again")
    failures.end()
    for error in (OSError("down"), OSError("still down"), ValueError("odd")):
        failures.add(error)
    failures.end()
    failures.end()
    failures.add(OSError("down again"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "the task fails: down"),
        ("DEBUG", "the task fails: still down"),
        ("WARNING", "the task fails: odd"),
        ("INFO", "the task works again"),
        ("WARNING", "the task fails: down again"),
    ]
    assert {record.name for record in caplog.records} == {"task"}
