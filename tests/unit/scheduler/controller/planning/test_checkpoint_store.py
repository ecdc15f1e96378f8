"""The checkpoint in the API server: a new leader has what the last one wrote, and of two leaders one writes."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

import pytest

from support.waiting import PATIENCE, eventually
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import AlreadyExists, Conflict, NotFound
from zonewise_common.kube.resources import CONFIG_MAPS
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.controller.planning.checkpoint_object import NAME
from zonewise_scheduler.controller.planning.checkpoint_store import CheckpointFile, CheckpointStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.backfill.checkpoint import Checkpoint

LONG = 1000.0


def checkpoint(consumed: float) -> Checkpoint:
    entry = {"consumed": {"cpu": consumed}, "last_update": 1.0, "pending_penalty": {}}
    return {"reservations": [], "usage": {"ns/l": entry}}  # type: ignore[dict-item]


@pytest.fixture
def client() -> Iterator[Client]:
    with ApiServer() as server:
        yield Client(Config.from_url(server.url, ""))


def test_the_file_is_written_only_where_it_changes(client: Client) -> None:
    file = CheckpointFile(client, "default")
    assert file.read() is None
    assert file.write(checkpoint(1.0))
    assert not file.write(checkpoint(1.0))
    assert file.write(checkpoint(2.0))
    assert CheckpointFile(client, "default").read() == checkpoint(2.0)


def test_of_two_replicas_that_believe_to_lead_the_later_write_fails(client: Client) -> None:
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
    assert new.read() == checkpoint(2.0)


def test_a_config_map_that_was_deleted_is_created_after_the_next_reading(client: Client) -> None:
    file = CheckpointFile(client, "default")
    file.read()
    file.write(checkpoint(1.0))
    client.delete(CONFIG_MAPS, NAME, namespace="default")
    with pytest.raises((NotFound, Conflict)):
        file.write(checkpoint(2.0))
    assert file.read() is None
    assert file.write(checkpoint(2.0))


def test_a_checkpoint_that_cannot_be_read_is_none(client: Client) -> None:
    client.create(CONFIG_MAPS, {"metadata": {"name": NAME, "namespace": "default"}, "data": {"checkpoint": "by hand"}})
    file = CheckpointFile(client, "default")
    assert file.read() is None
    assert file.write(checkpoint(1.0))


def test_the_last_checkpoint_of_a_leader_is_what_the_next_one_restores(client: Client) -> None:
    restored: queue.SimpleQueue[Checkpoint | None] = queue.SimpleQueue()
    file = CheckpointFile(client, "default")
    with CheckpointStore(file, ask=lambda: checkpoint(5.0), lead=restored.put, period=LONG) as store:
        store.start_leading()
        assert restored.get(timeout=PATIENCE) is None
    with CheckpointStore(CheckpointFile(client, "default"), ask=dict, lead=restored.put, period=LONG) as store:  # type: ignore[arg-type]
        store.start_leading()
        assert restored.get(timeout=PATIENCE) == checkpoint(5.0)
        store.stop_leading()


def test_a_leader_writes_again_and_again_also_after_a_conflict(client: Client) -> None:
    consumed = iter(range(1_000_000))
    led: queue.SimpleQueue[Checkpoint | None] = queue.SimpleQueue()
    reader = CheckpointFile(client, "default")

    def usage() -> float:
        read = reader.read()
        return -1.0 if read is None else read["usage"]["ns/l"]["consumed"]["cpu"]

    with CheckpointStore(
        CheckpointFile(client, "default"), ask=lambda: checkpoint(next(consumed)), lead=led.put, period=0.01
    ) as store:
        store.start_leading()
        eventually(lambda: usage() >= 2)
        client.delete(CONFIG_MAPS, NAME, namespace="default")
        eventually(lambda: usage() >= 3)
        store.stop_leading()


def test_a_replica_that_does_not_lead_neither_reads_nor_writes(client: Client) -> None:
    led: queue.SimpleQueue[Checkpoint | None] = queue.SimpleQueue()
    with CheckpointStore(
        CheckpointFile(client, "default"), ask=lambda: checkpoint(1.0), lead=led.put, period=0.001
    ) as store:
        store.stop_leading()
    assert led.empty()
    assert CheckpointFile(client, "default").read() is None
