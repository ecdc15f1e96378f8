"""Logs: one line for each event, for people or for programs."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING

import pytest

from support.loggers import restored_loggers
from zonewise_common.service import logs

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("zonewise.test")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    with restored_loggers():
        yield


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    """The line has the time in UTC with milliseconds, the level, the logger and the message."""
    logs.configure_logging("info", "text")
    log.info("a %s", "b")
    line = capsys.readouterr().err
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    zonewise\.test: a b\n", line)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line has one object, for any message; tracebacks are inside the object."""
    logs.configure_logging("info", "json")
    log.warning('quote " newline\n é')
    try:
        int("odd")
    except ValueError:
        log.exception("failed")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("warning", "zonewise.test", 'quote " newline\n é')
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert "ValueError: invalid literal" in second["exception"]


@pytest.mark.parametrize(("level", "line"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_levels(capsys: pytest.CaptureFixture[str], level: str, line: int) -> None:
    """The level applies to the project's loggers; libraries log only warnings and errors at any level."""
    logs.configure_logging(level, "text")
    for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        log.log(number, "x")
    assert len(capsys.readouterr().err.splitlines()) == line
    logging.getLogger("urllib3").info("x")
    assert capsys.readouterr().err == ""


def test_set_up_again(capsys: pytest.CaptureFixture[str]) -> None:
    """New settings replace the old ones, so no record is logged twice."""
    logs.configure_logging("info", "json")
    logs.configure_logging("info", "text")
    log.info("x")
    assert len(capsys.readouterr().err.splitlines()) == 1
