"""Write Events with low priority: they have their own rate limit, and are dropped if too many wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.writing.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.controller.types import Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

RATE, BURST = 20.0, 100
"""Events per second, and number of Events at once after a rest."""
MAX_WAITING = 500
_THREADS = 2
"""One for each namespace, so that the Events of a namespace are written in order."""


class EventWriter:
    """Runs a thread that writes Events. It works while the context is entered."""

    def __init__(
        self,
        client: Client,
        count: Callable[[Write, Outcome], object],
        count_dropped: Callable[[], object],
        *,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        """Set the callbacks. `count` gets each attempt, in the writer's thread.

        Nothing is sent while `may_write` returns False.
        """
        self._writer = Writer(client, lambda _write, _outcome: None, rate=RATE, burst=BURST, threads=_THREADS,
                              count=count, may_write=may_write)  # fmt: skip
        self._count_dropped = count_dropped

    def __enter__(self) -> Self:
        self._writer.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.__exit__(*error)

    def submit(self, write: Write) -> None:
        """Write an Event soon, or drop it."""
        if self._writer.backlog < MAX_WAITING:
            self._writer.submit(write)
        else:
            self._count_dropped()
