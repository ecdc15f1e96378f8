"""The signals that end a program.

A signal handler runs in the main thread, between any two instructions. It must not set an Event. If the main thread is
about to wait for this Event, it holds the Event's lock. The handler would then wait for this lock forever. So the
handler only puts into a SimpleQueue, which is reentrant, and a thread sets the Event.
"""

from __future__ import annotations

import signal
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def stop_event(*, on_hangup: bool = False) -> threading.Event:
    """Return an event that SIGTERM and SIGINT set from now on; for the main thread.

    With `on_hangup`, SIGHUP, which a closing terminal sends, sets it as well, unless it is ignored as under nohup.
    """
    stop = threading.Event()
    received: SimpleQueue[int] = SimpleQueue()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if on_hangup and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def set_stop() -> None:
        received.get()
        stop.set()

    def note(number: int, _frame: FrameType | None) -> None:
        received.put(number)

    threading.Thread(target=set_stop, name="stop-signals", daemon=True).start()
    for number in numbers:
        signal.signal(number, note)
    return stop
