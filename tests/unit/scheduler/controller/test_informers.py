"""The informers while kinds come and go: other threads ask for their state at any time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zonewise_common.kube.errors import NotFound
from zonewise_common.kube.resources import JOBS, WORKLOADS
from zonewise_scheduler.controller import informers
from zonewise_scheduler.controller.informers import ObjectInformers, watched_objects

if TYPE_CHECKING:
    import pytest

    from zonewise_common.kube.resources import Resource


def test_a_kind_that_is_served_while_the_state_is_read_disturbs_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    is_served, is_watched = threading.Event(), threading.Event()

    class SlowReflector:
        """The first of two kinds: reading its state lasts until the second one is watched."""

        age = 0.0

        def __init__(self, _client: object, resource: Resource, *_: object) -> None:
            self.resource = resource
            self.on_listing = None

        @property
        def has_synced(self) -> bool:
            is_served.set()
            return is_watched.wait(10)

        def start(self) -> None:
            if self.resource == WORKLOADS:
                is_watched.set()

        def close(self, _timeout: float) -> None:
            pass

    def probe(_client: object, _resource: Resource) -> None:
        if not is_served.is_set():
            raise NotFound(404, "NotFound", "not served")

    monkeypatch.setattr(informers, "Reflector", SlowReflector)
    monkeypatch.setattr(informers, "probe", probe)
    required, optional = ([watched_objects(each, print, print)] for each in (JOBS, WORKLOADS))
    with ObjectInformers(None, required, optional, probe_period=0.01) as watched:  # pyright: ignore[reportArgumentType]
        assert watched.unsynced == []
        assert is_watched.is_set()
        assert watched.ages.keys() == {"jobs", "workloads"}
