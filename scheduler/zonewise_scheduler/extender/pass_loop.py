"""Runs a scheduling pass after each event that may let a waiting pod fit, and submits the placed pods for binding."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_scheduler.extender.binder import Binder
    from zonewise_scheduler.extender.cache import ExtenderCache
    from zonewise_scheduler.extender.informers import Informers

log = logging.getLogger(__name__)

COALESCE = 0.003
"""Seconds for which a pass waits after an event: events come in bursts, and one pass then handles all of them."""
_STOP_TIMEOUT = 1.0
"""Seconds."""


class PassLoop:
    """See the module. Works while the context is entered."""

    def __init__(self, cache: ExtenderCache, binder: Binder, informers: Informers) -> None:
        self._cache = cache
        self._binder = binder
        self._informers = informers
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scheduling-pass", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._cache.changed.set()
        self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        changed = self._cache.changed
        while changed.wait() and not self._stopping.wait(COALESCE):
            changed.clear()
            if self._informers.unsynced:
                continue
            try:
                while placements := self._cache.place_waiting():
                    self._binder.submit(placements)
            except Exception:  # a bug must not end the loop
                log.exception("a scheduling pass failed")
                self._binder.submit(self._cache.take_placements())
