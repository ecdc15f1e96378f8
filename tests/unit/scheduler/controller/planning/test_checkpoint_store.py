"""The checkpoint in the API server: a new leader reads its predecessor's, and only one of two leaders writes."""

from __future__ import annotations

import queue
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from support.kube_faults import ScriptedServer, give, refuse
from support.planner_stories import make_workload
from support.waiting import PATIENCE, eventually
from zonewise_common.kube.client import Client, PatchKind
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import AlreadyExists, Conflict, NotFound
from zonewise_common.kube.resources import CONFIG_MAPS
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.backfill.forecast.history import ForecastHistory
from zonewise_scheduler.controller.planning import checkpoint_store
from zonewise_scheduler.controller.planning.checkpoint_object import NAME
from zonewise_scheduler.controller.planning.checkpoint_store import CheckpointFile, CheckpointStore, StoredCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zonewise_scheduler.backfill.state.checkpoint import Checkpoint

LONG = 1000.0


def checkpoint(consumed: float) -> Checkpoint:
    entry = {"consumed": {"cpu": consumed}, "last_update": 1.0}
    return {"reservations": [], "usage": {"ns/l": entry}}  # type: ignore[dict-item]


@pytest.fixture
def client() -> Iterator[Client]:
    with ApiServer() as server:
        yield Client(Config.from_url(server.url, ""))


def test_the_file_is_written_only_if_it_changes(client: Client) -> None:
    file = CheckpointFile(client, "default")
    assert file.read() == StoredCheckpoint()
    assert file.write(checkpoint(1.0))
    assert not file.write(checkpoint(1.0))
    assert file.write(checkpoint(2.0))
    assert CheckpointFile(client, "default").read().checkpoint == checkpoint(2.0)


def test_if_two_replicas_consider_themselves_leaders_the_later_write_fails(client: Client) -> None:
    old, new = CheckpointFile(client, "default"), CheckpointFile(client, "default")
    old.read()
    new.read()
    old.write(checkpoint(1.0))
    with pytest.raises(AlreadyExists):
        new.write(checkpoint(2.0))
    new.read()
    new.write(checkpoint(2.0))
    with pytest.raises(Conflict):
        old.write(checkpoint(3.0))
    assert new.read().checkpoint == checkpoint(2.0)


def test_a_deleted_config_map_is_created_again_after_the_next_read(client: Client) -> None:
    file = CheckpointFile(client, "default")
    file.read()
    file.write(checkpoint(1.0))
    client.delete(CONFIG_MAPS, NAME, namespace="default")
    with pytest.raises((NotFound, Conflict)):
        file.write(checkpoint(2.0))
    assert file.read() == StoredCheckpoint()
    assert file.write(checkpoint(2.0))


def test_an_unreadable_checkpoint_counts_as_none(client: Client) -> None:
    client.create(CONFIG_MAPS, {"metadata": {"name": NAME, "namespace": "default"}, "data": {"checkpoint": "by hand"}})
    file = CheckpointFile(client, "default")
    assert file.read() == StoredCheckpoint()
    assert file.write(checkpoint(1.0))


class Leader:
    """The callbacks of a store: the state that it reads, and what it has restored."""

    def __init__(self, consumed: Callable[[], float] = lambda: 5.0) -> None:
        self.consumed = consumed
        self.history = learned(10.0)
        self.led: queue.SimpleQueue[tuple[Checkpoint | None, ForecastHistory | None]] = queue.SimpleQueue()

    def store(
        self,
        client: Client,
        period: float = LONG,
        forecast_rate: float = 1.0,
        retry_pause: float = 1.0,
        may_write: Callable[[], bool] = lambda: True,
    ) -> CheckpointStore:
        return CheckpointStore(
            CheckpointFile(client, "default"),
            get_checkpoint=lambda: checkpoint(self.consumed()),
            lead=lambda restored, forecasts: self.led.put((restored, forecasts)),
            get_forecasts=self.history.copy,
            period=period,
            forecast_rate=forecast_rate,
            retry_pause=retry_pause,
            may_write=may_write,
        )


def learned(*runs: float) -> ForecastHistory:
    history = ForecastHistory()
    for run in runs:
        history.ended(make_workload("a", 1000), run)
    return history


def runs_of(forecasts: ForecastHistory | None) -> list[float]:
    return [] if forecasts is None else [run.run_time for run in forecasts.run_times.observed]


def test_a_leader_restores_the_last_checkpoint_of_its_predecessor(client: Client) -> None:
    leader = Leader()
    with leader.store(client) as store:
        store.start_leading()
        assert leader.led.get(timeout=PATIENCE) == (None, None)
    with leader.store(client) as store:
        store.start_leading()
        restored, forecasts = leader.led.get(timeout=PATIENCE)
        assert (restored, runs_of(forecasts)) == (checkpoint(5.0), [10.0])
        store.stop_leading()


def test_a_replica_leads_even_after_a_response_that_is_no_config_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, a proxy responds in place of the API server while it restarts."""
    monkeypatch.setattr(checkpoint_store, "_STOP_TIMEOUT", 0.0)
    leader = Leader()
    with (
        ScriptedServer([give(200, {}), refuse(404, "NotFound")]) as server,
        closing(Client(Config.from_url(server.url, ""))) as client,
        leader.store(client, retry_pause=0.01) as store,
    ):
        store.start_leading()
        assert leader.led.get(timeout=PATIENCE) == (None, None)


def test_the_learned_state_of_forecasts_is_written_again_if_the_rate_allows(client: Client) -> None:
    """The usage never changes, so nothing else causes a write. The second write precedes the stop of the program."""
    leader = Leader()
    reader = CheckpointFile(client, "default")
    with leader.store(client, period=0.01, forecast_rate=1e9) as store:
        store.start_leading()
        eventually(lambda: runs_of(reader.read().forecasts) == [10.0])
        leader.history.ended(make_workload("b", 1000), 20.0)
        eventually(lambda: runs_of(reader.read().forecasts) == [10.0, 20.0])


def test_the_learned_state_of_forecasts_is_written_within_the_rate_and_never_lost(client: Client) -> None:
    """At a byte per second, minutes pass between two writes. Each version of the ConfigMap keeps the last forecasts."""
    consumed = iter(range(1_000_000))
    leader = Leader(lambda: next(consumed))
    reader = CheckpointFile(client, "default")

    def usage() -> float:
        read, forecasts = reader.read()
        assert read is None or runs_of(forecasts) == [10.0]
        return -1.0 if read is None else read["usage"]["ns/l"]["consumed"]["cpu"]

    with leader.store(client, period=0.01) as store:
        store.start_leading()
        eventually(lambda: usage() >= 0)
        leader.history.ended(make_workload("b", 1000), 20.0)
        written = usage()
        eventually(lambda: usage() > written + 2)
    eventually(lambda: runs_of(reader.read().forecasts) == [10.0, 20.0])


def test_unreadable_forecasts_do_not_affect_the_checkpoint(client: Client) -> None:
    file = CheckpointFile(client, "default")
    file.read()
    file.write(checkpoint(1.0), learned(10.0))
    patch = {"binaryData": {"forecasts.json.gz": "AAAA"}}
    client.patch(CONFIG_MAPS, NAME, patch, kind=PatchKind.MERGE, namespace="default")
    assert file.read() == StoredCheckpoint(checkpoint(1.0))


def test_a_leader_writes_repeatedly_even_after_a_conflict(client: Client) -> None:
    consumed = iter(range(1_000_000))
    leader = Leader(lambda: next(consumed))
    reader = CheckpointFile(client, "default")

    def usage() -> float:
        read = reader.read().checkpoint
        return -1.0 if read is None else read["usage"]["ns/l"]["consumed"]["cpu"]

    with leader.store(client, period=0.01) as store:
        store.start_leading()
        eventually(lambda: usage() >= 2)
        client.delete(CONFIG_MAPS, NAME, namespace="default")
        eventually(lambda: usage() >= 3)
        assert runs_of(reader.read().forecasts) == [10.0]
        store.stop_leading()


def test_a_store_that_is_stopped_during_a_read_neither_leads_nor_writes(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, Kueue is started again while the server is slow; the controller is on standby from then on."""
    assert CheckpointFile(client, "default").write(checkpoint(1.0))
    leader, is_read, is_slow = Leader(), threading.Event(), threading.Event()
    read = CheckpointFile.read

    def read_slowly(file: CheckpointFile) -> StoredCheckpoint:
        is_read.set()
        assert is_slow.wait(PATIENCE)
        return read(file)

    monkeypatch.setattr(CheckpointFile, "read", read_slowly)
    monkeypatch.setattr(checkpoint_store, "_STOP_TIMEOUT", 0.0)
    with leader.store(client) as store:
        store.start_leading()
        assert is_read.wait(PATIENCE)
    is_slow.set()
    eventually(lambda: "checkpoint" not in {thread.name for thread in threading.enumerate()})
    assert leader.led.empty()
    assert CheckpointFile(client, "default").read().checkpoint == checkpoint(1.0)


def test_a_replica_that_does_not_lead_neither_reads_nor_writes(client: Client) -> None:
    leader = Leader()
    with leader.store(client, period=0.001) as store:
        store.stop_leading()
    assert leader.led.empty()
    assert CheckpointFile(client, "default").read() == StoredCheckpoint()


@pytest.mark.parametrize("holds_lease", [True, False])
def test_a_leader_that_has_lost_its_lease_writes_nothing(client: Client, *, holds_lease: bool) -> None:
    """It resumes after a pause, and does not know yet that another replica leads."""
    leader = Leader()
    with leader.store(client, may_write=lambda: holds_lease) as store:
        store.start_leading()
        leader.led.get(timeout=PATIENCE)
    assert CheckpointFile(client, "default").read().checkpoint == (checkpoint(5.0) if holds_lease else None)
