"""Signals that end a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.waiting import PATIENCE
from zonewise_common.service.stop_signals import stop_event

if TYPE_CHECKING:
    from collections.abc import Iterator


NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Restore the signal handlers. SIGHUP has its default action, even if the tests run under nohup."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_sets_the_event(number: signal.Signals) -> None:
    stop = stop_event(on_hangup=True)
    assert not stop.is_set()
    os.kill(os.getpid(), number)
    assert stop.wait(PATIENCE)


_SIGNAL_UNDER_LOCK = """
import signal, sys, threading
from zonewise_common.service.stop_signals import stop_event

def send(frame, event, argument):
    if event == "call" and frame.f_code is threading.Condition.wait.__code__:
        sys.setprofile(None)
        signal.raise_signal(signal.SIGTERM)

stop = stop_event()
sys.setprofile(send)
stop.wait()
"""


def test_a_signal_just_before_the_wait_does_not_block_the_program() -> None:
    """The main thread then holds the lock of the event."""
    run = subprocess.run([sys.executable, "-c", _SIGNAL_UNDER_LOCK], timeout=PATIENCE, check=False)
    assert run.returncode == 0


def test_a_hangup_that_does_not_stop_is_unchanged() -> None:
    stop_event()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_an_ignored_hangup_remains_ignored() -> None:
    """SIGHUP is ignored under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop_event(on_hangup=True)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
