"""Signals that end a program."""

from __future__ import annotations

import os
import signal

import pytest

from zonewise_common.service.stop_signals import stop_event


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_event(number: signal.Signals) -> None:
    handlers = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        stop = stop_event()
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        assert stop.wait(10)
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
