"""The writer: each write is carried out once its outcome is known, even across an outage."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import pytest

from support.kube_faults import ScriptedServer, give, refuse
from support.waiting import PATIENCE
from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.resources import CONFIG_MAPS
from zonewise_common.service.delayed_tasks import DelayedTasks
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.writing import writer as writer_module
from zonewise_scheduler.controller.writing.outcome import Outcome
from zonewise_scheduler.controller.writing.writer import FORBIDDEN_REPEATS, Writer

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]
Reports = queue.Queue[tuple[Write, Outcome]]


def creation(name: str) -> Write:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
    return Write(Verb.CREATE, ObjectKey(CONFIG_MAPS, "default", name), "create", body)


def writer(client: Client, reports: Reports, **options: Any) -> Writer:
    return Writer(client, into(reports), rate=1000.0, burst=1000, **options)


def into(reports: Reports) -> Callable[[Write, Outcome], None]:
    def report(write: Write, outcome: Outcome) -> None:
        reports.put((write, outcome))

    return report


def test_all_writes_are_carried_out_and_reported() -> None:
    reports: Reports = queue.Queue()
    with ApiServer() as server, writer(Client(server.client_config()), reports) as written:
        names = {f"c{i}" for i in range(50)}
        for name in names:
            written.submit(creation(name))
        ended = [reports.get(timeout=PATIENCE) for _ in names]
    assert {write.key.name for write, _ in ended} == names
    assert {outcome.result for _, outcome in ended} == {"done"}
    assert written.backlog == 0


def test_a_write_without_an_outcome_is_repeated_until_it_has_one() -> None:
    reports: Reports = queue.Queue()
    attempts: Reports = queue.Queue()
    with ApiServer() as server:
        port = server.port
    client = Client(Config.from_url(f"http://127.0.0.1:{port}"))
    with writer(client, reports, count=into(attempts)) as written:
        written.submit(creation("c"))
        assert attempts.get(timeout=PATIENCE)[1].result == "unknown"
        assert written.backlog == 1
        with ApiServer(port):
            assert reports.get(timeout=PATIENCE)[1].result == "done"


@pytest.mark.parametrize(("times", "result"), [(FORBIDDEN_REPEATS, "done"), (FORBIDDEN_REPEATS + 1, "rejected")])
def test_a_forbidden_write_is_repeated_a_few_times(times: int, result: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that has just started does not know the roles yet."""
    monkeypatch.setattr(writer_module, "_FORBIDDEN_BACKOFF", Backoff(base=0.01, cap=0.01))
    reports: Reports = queue.Queue()
    attempts: Reports = queue.Queue()
    responses = [*[refuse(403, "Forbidden")] * times, give(201, {"metadata": {}})]
    with (
        ScriptedServer(responses) as server,
        writer(Client(Config.from_url(server.url)), reports, count=into(attempts)) as written,
    ):
        written.submit(creation("c"))
        assert reports.get(timeout=PATIENCE)[1].result == result
    assert attempts.qsize() == FORBIDDEN_REPEATS + 1


@pytest.mark.parametrize("wait", ["86400", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_no_server_silences_the_writer_with_its_retry_after(wait: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock or a proxy may be wrong. A wait of centuries exceeds what a thread can wait, and would end it."""
    monkeypatch.setattr(writer_module, "_BACKOFF", Backoff(base=0.01, cap=0.01, retry_after_cap=0.01))
    reports: Reports = queue.Queue()
    busy, done = refuse(503, "ServiceUnavailable", headers={"Retry-After": wait}), give(201, {"metadata": {}})
    with (
        ScriptedServer([busy, done]) as server,
        writer(Client(Config.from_url(server.url)), reports) as written,
    ):
        written.submit(creation("c"))
        assert reports.get(timeout=PATIENCE)[1].result == "done"


def test_repetitions_are_limited_and_delay_no_new_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that sheds load may ask for a short wait only."""
    monkeypatch.setattr(writer_module, "_BACKOFF", Backoff(base=0.0, cap=0.0))
    delays: list[float] = []
    submit = DelayedTasks[Any].submit

    def submit_at_once(tasks: DelayedTasks[Any], task: object, delay: float = 0.0) -> None:
        delays.append(delay)
        submit(tasks, task)

    monkeypatch.setattr(DelayedTasks, "submit", submit_at_once)
    reports: Reports = queue.Queue()
    responses = [*[refuse(429, "TooManyRequests")] * 5, *[give(201, {"metadata": {}})] * 2]
    with (
        ScriptedServer(responses) as server,
        Writer(Client(Config.from_url(server.url)), into(reports), rate=0.0002, burst=2) as written,
    ):
        for name in ("repeated", "new"):
            written.submit(creation(name))
            assert reports.get(timeout=PATIENCE)[1].result == "done"
    first, *repeats, new = delays
    assert (first, new) == (0.0, 0.0)
    assert repeats == pytest.approx([0.0, 0.0, 10_000.0, 20_000.0, 30_000.0], abs=PATIENCE)


def test_a_write_that_remains_without_an_outcome_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "_BACKOFF", Backoff(base=0.01, cap=0.01))
    monkeypatch.setattr(writer_module, "DELAYED", 0.0)
    reports: Reports = queue.Queue()
    delays: Reports = queue.Queue()
    hangs = refuse(500, "InternalError", message="failed calling webhook")
    with (
        ScriptedServer([hangs, hangs, give(201, {"metadata": {}})]) as server,
        writer(Client(Config.from_url(server.url)), reports, report_delay=into(delays)) as written,
    ):
        written.submit(creation("c"))
        assert reports.get(timeout=PATIENCE)[1].result == "done"
    write, outcome = delays.get_nowait()
    assert (write.key.name, outcome.result) == ("c", "unknown")
    assert delays.empty()


def test_a_replica_that_does_not_lead_writes_nothing() -> None:
    reports: Reports = queue.Queue()
    with ApiServer() as server:
        client = Client(server.client_config())
        with writer(client, reports, may_write=lambda: False) as written:
            written.submit(creation("c"))
            assert reports.get(timeout=PATIENCE)[1].result == "stale"
        assert not client.list(CONFIG_MAPS, namespace="default").items


def test_a_drained_writer_has_carried_out_all_writes() -> None:
    reports: Reports = queue.Queue()
    with ApiServer() as server:
        client = Client(server.client_config())
        with writer(client, reports) as written:
            for i in range(50):
                written.submit(creation(f"c{i}"))
            assert written.drain(PATIENCE)
            assert written.backlog == 0
            assert len(client.list(CONFIG_MAPS, namespace="default").items) == 50


def test_a_writer_that_cannot_write_is_not_drained() -> None:
    reports: Reports = queue.Queue()
    with ApiServer() as server:
        port = server.port
    with writer(Client(Config.from_url(f"http://127.0.0.1:{port}")), reports) as written:
        written.submit(creation("c"))
        assert not written.drain(0.01)
        assert written.backlog == 1
