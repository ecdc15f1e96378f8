"""A reflector of pods with a scripted server, and simulated time that passes at once."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import msgspec

from support.kube_faults import ScriptedServer, give, pod, pods
from support.waiting import PATIENCE
from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.reflector import Reflector, WatchTimes
from zonewise_common.kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from support.kube_faults import Answer

A, B, C, D = pod("a", 90), pod("b", 101), pod("c", 102), pod("d", 103)
LISTED = give(200, pods(100, A))
QUICK = WatchTimes(healthy_after=10.0, backoff=Backoff(base=0.001, cap=0.01))


class Meta(msgspec.Struct):
    name: str


class Pod(msgspec.Struct):
    """The fields that a caller might need."""

    metadata: Meta
    phase: str = ""


as_pod = msgspec.json.Decoder(Pod).decode


def ignore(*_: object) -> None:
    """Ignore any change."""


class Copy:
    """A reflector with its server, and the changes that its handler received."""

    def __init__(self, server: ScriptedServer, times: WatchTimes, wait: SimulatedTime | None = None) -> None:
        self.server = server
        self.changes: list[tuple[str | None, str | None]] = []
        self.client = Client(Config.from_url(server.url), timeout=PATIENCE)
        self.listings: list[tuple[int, int]] = []
        """The version of each listing, and the number of changes before it."""
        self.reflector = Reflector(self.client, PODS, as_pod, self.record, times=times, wait=wait, draw=lambda: 0.5)
        self.reflector.on_listing = lambda version: self.listings.append((version, len(self.changes)))

    def record(self, old: Pod | None, new: Pod | None) -> None:
        self.changes.append((old.metadata.name if old else None, new.metadata.name if new else None))

    @property
    def names(self) -> str:
        return "".join(sorted(pod.metadata.name for pod in self.reflector.values()))


@contextlib.contextmanager
def copying(
    watches: Sequence[Answer],
    lists: Sequence[Answer] = (LISTED,),
    times: WatchTimes = QUICK,
    wait: SimulatedTime | None = None,
) -> Generator[Copy]:
    with ScriptedServer(lists, watches) as server:
        copy = Copy(server, times, wait)
        copy.reflector.start()
        try:
            yield copy
        finally:
            if wait is not None:
                wait.closing.set()
            copy.reflector.close()
            copy.client.close()


class SimulatedTime:
    """A minute that passes at once: waits are recorded, and nothing more happens when the minute is over."""

    def __init__(self) -> None:
        self.left = 60.0
        self.waits: list[float] = []
        self.over = threading.Event()
        self.closing = threading.Event()

    def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.left -= seconds
        if self.left < 0:
            self.over.set()
            self.closing.wait()
