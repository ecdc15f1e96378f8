"""What the agent knows of itself and of its node, kept for those who ask: probes, metrics, /debug/state."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.machine.model.machine import Machine
from zonewise.objects.features import Features

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise.kubelet.types import KubeletConfig
    from zonewise.machine.discover import Run
    from zonewise.usage.types import Usage


class Snapshot(NamedTuple):
    """What the last scan found; values that are never changed, so that they may be read while the next one runs."""

    node_name: str
    machine: Machine = Machine()
    runs: tuple[Run, ...] = ()
    usage: Usage | None = None
    """None: the kubelet has not told yet."""
    config: KubeletConfig | None = None
    problems: tuple[str, ...] = ()
    """What is wrong at present with what the kubelet says, and with labels, each a sentence."""
    nrt: dict[str, Any] | None = None
    """The NodeResourceTopology; None as long as there is none to publish."""
    labels: dict[str, str] | None = None
    features: Features = Features({}, {}, {})
    """What rules of Node Feature Discovery may match, beside the labels."""


class Status:
    """The state that threads share. Times are of the clock given, seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._snapshot = Snapshot("")
        self._good: dict[str, float | None] = {}
        self._beat = clock()

    @property
    def snapshot(self) -> Snapshot:
        """Return what the last scan found."""
        return self._snapshot

    def set_snapshot(self, snapshot: Snapshot) -> None:
        """Keep what a scan found."""
        self._snapshot = snapshot

    def beat(self) -> None:
        """Note that the loop goes round."""
        with self._lock:
            self._beat = self._clock()

    def expect(self, objects: Iterable[str]) -> None:
        """Say what is going to be published; what is known of these stays known."""
        with self._lock:
            self._good = {name: self._good.get(name) for name in objects}

    def published(self, name: str) -> None:
        """Note that one object is published as the node is now."""
        with self._lock:
            if name in self._good:
                self._good[name] = self._clock()

    def silence(self) -> float:
        """Return for how many seconds the loop has not gone round."""
        with self._lock:
            return self._clock() - self._beat

    def age(self) -> float | None:
        """Return for how many seconds what is published has not all been known to be right; None: it never was.

        0 where nothing is to be published at all.
        """
        with self._lock:
            times = list(self._good.values())
            if not times:
                return 0.0
            known = [time for time in times if time is not None]
            return self._clock() - min(known) if len(known) == len(times) else None
