"""The signals that end a program."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def stop_event(*, on_hangup: bool = False) -> threading.Event:
    """Return an event that SIGTERM and SIGINT set from now on; for the main thread.

    With `on_hangup`, SIGHUP, which a closing terminal sends, sets it as well, unless it is ignored as under nohup.
    """
    stop = threading.Event()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if on_hangup and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def set_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in numbers:
        signal.signal(number, set_stop)
    return stop
