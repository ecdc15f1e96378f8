"""The loop: what it publishes while the kubelet restarts, when it scans again, and what it logs."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.kubelets import GPU, pod
from support.loops import DOWN, FORGETFUL, GARBLED, INTERVAL, NODE, OK, OWN, SCAN, STARTING, FakeEvents, Loop
from support.waiting import PATIENCE, eventually
from zonewise.daemon.agent import KUBELET_BACKOFF, Agent, AgentOptions
from zonewise.daemon.events import Reason
from zonewise.daemon.exclusions import Exclusions, PodPattern
from zonewise.daemon.pod_labels import pod_exclusion
from zonewise.daemon.sinks import PublishingSink
from zonewise.objects.nrt import NrtOptions, machine_to_nrt
from zonewise.publish.nrt_publisher import NO_WRITE, WriteResult
from zonewise.usage.node_usage import exclude_none, node_usage
from zonewise.usage.types import Usage
from zonewise_common.kube.errors import TransportError
from zonewise_sandbox.kubelet import DoesNotFit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.daemon.status import Snapshot

START, STOP, RELOAD, STATE = Reason.START, Reason.STOP, Reason.RELOAD, Reason.STATE


def run(loop: Loop, script: Iterable[tuple[float, Iterable[Reason]]], last: Reason = STOP) -> FakeEvents:
    """Run the loop through a script and return the events, which record the waits."""
    events = FakeEvents(loop.clock, script, last)
    assert last in loop.agent.run(events)
    return events


def justified(loop: Loop) -> dict[str, Any]:
    """Return the report that follows from the kubelet's last responses."""
    report = loop.kubelet.report()
    usage = node_usage(SCAN.machine, report)
    assert isinstance(usage, Usage)
    return machine_to_nrt(SCAN.machine, NODE, usage, report.config)


# --- what is published


def test_the_published_object_matches_the_responses() -> None:
    loop = Loop()
    loop.kubelet.managers.admit(pod("a", 4, gpus=1))
    assert loop.run_once(START) is None
    assert loop.sink.published == justified(loop)
    assert loop.status.snapshot is loop.sink.snapshots[-1]
    assert loop.count("zonewise_kubelet_ready") == 1


@pytest.mark.parametrize("mood", [DOWN, STARTING, FORGETFUL, GARBLED])
def test_an_earlier_report_remains(mood: str) -> None:
    """While the kubelet fails, no report is submitted: unknown is not zero. Labels are still published."""
    loop = Loop()
    loop.run_once(START)
    before = loop.sink.published
    loop.kubelet.mood = mood
    loop.kubelet.managers.admit(pod("a", 4))
    assert loop.run_once(Reason.SOCKET) is not None
    last = loop.sink.snapshots[-1]
    assert (last.nrt, last.usage, loop.sink.published) == (None, None, before)
    assert last.labels == loop.sink.snapshots[0].labels
    assert last.problems
    assert loop.count("zonewise_kubelet_ready") == 0


MOODS = st.sampled_from([OK, OK, DOWN, STARTING, FORGETFUL, GARBLED])
REASONS = st.frozensets(
    st.sampled_from([STATE, Reason.PODS, Reason.DEVICES, Reason.SOCKET, Reason.RETRY, Reason.TIMER]), min_size=1
)
HAPPENINGS = st.lists(st.tuples(st.integers(-4, 16), MOODS, REASONS), min_size=1, max_size=12)


@given(HAPPENINGS)
@settings(deadline=None, max_examples=60)  # each example is up to a dozen passes of the loop
def test_no_report_without_responses(happenings: list[tuple[int, str, frozenset[Reason]]]) -> None:
    """Valid responses are published as usage; after invalid ones, the previous report remains."""
    loop = Loop()
    published: dict[str, Any] | None = None
    for number, (cpus, mood, reasons) in enumerate(happenings):
        change(loop, number, cpus)
        loop.kubelet.mood = mood
        pause = loop.run_once(*reasons)
        # under STATE alone, GetAllocatableResources is not called again for a kubelet that has just restarted
        if loop.sink.snapshots[-1].nrt is not None:
            assert mood in (OK, STARTING)
            published = justified(loop)
        assert loop.sink.published == published
        assert (pause is None) == (loop.sink.snapshots[-1].nrt is not None)
        assert mood != OK or loop.sink.published == justified(loop)


def change(loop: Loop, number: int, cpus: int) -> None:
    """Start a pod with this number of CPUs; if the number is negative, remove a pod."""
    managers = loop.kubelet.managers
    if cpus > 0:
        try:
            managers.admit(pod(f"p{number}", cpus, gpus=cpus % 2))
        except DoesNotFit:
            return
    elif 0 < -cpus < len(managers.pods):
        managers.remove([uid for uid in managers.pods if uid != OWN.uid][-cpus - 1])


def test_a_kubelet_that_becomes_ready_counts_at_once() -> None:
    """Its responses before that are invalid, so any wakeup requests everything again."""
    loop = Loop()
    loop.kubelet.mood = STARTING
    assert loop.run_once(START) is not None
    loop.kubelet.mood = OK
    assert loop.run_once(STATE) is None
    assert loop.sink.published == justified(loop)


def test_problems_are_reported_together() -> None:
    """The problem that the kubelet is not ready does not hide the others, which may be its cause."""
    loop = Loop()
    loop.kubelet.mood = STARTING
    loop.config.problem = "the kubelet's policies are unknown"
    loop.run_once(START)
    first, second = loop.status.snapshot.problems
    assert first == loop.config.problem
    assert second.startswith("the kubelet is not ready: ")


def test_exclusions() -> None:
    """Resources of an excluded pod are neither allocatable nor available; excluded resources are not listed."""
    exclusions = Exclusions((("*", "memory"),), (PodPattern("lab", "hidden-*"),))
    loop = Loop(pod_exclusion(exclusions, None), NrtOptions(exclusions.resource_patterns(NODE)))
    loop.run_once(START)
    before = amounts(loop, "cpu")
    loop.kubelet.managers.admit(pod("hidden-1", 4, gpus=1))
    loop.kubelet.managers.admit(pod("shown", 2))
    loop.run_once(STATE)
    after = amounts(loop, "cpu")
    assert [first - second for first, second in zip(before[0], after[0], strict=True)] == [4, 0]
    assert [first - second for first, second in zip(before[1], after[1], strict=True)] == [6, 0]
    assert amounts(loop, GPU) == ([1, 2], [1, 2])
    assert amounts(loop, "memory") == ([], [])


def amounts(loop: Loop, resource: str) -> tuple[list[int], list[int]]:
    """Return the published allocatable and available amounts of a resource in each zone."""
    assert loop.sink.published is not None
    zones = [zone for zone in loop.sink.published["zones"] if zone["type"] == "Node"]
    matching = [amount for zone in zones for amount in zone["resources"] if amount["name"] == resource]
    return [int(amount["allocatable"]) for amount in matching], [int(amount["available"]) for amount in matching]


def test_a_failing_sink_does_not_delay_the_others() -> None:
    """One publisher gets no response and another fails; the third one still publishes."""
    loop = Loop()
    gate, failed, done = threading.Event(), threading.Event(), threading.Event()

    def stuck(snapshot: Snapshot) -> WriteResult:
        gate.wait(PATIENCE)
        return NO_WRITE

    def failing(snapshot: Snapshot) -> WriteResult:
        failed.set()
        raise TransportError("refused")

    def working(snapshot: Snapshot) -> WriteResult:
        done.set()
        return NO_WRITE

    loop.status.expect(["stuck", "failing", "working"])
    sinks = [
        PublishingSink(publish.__name__, publish, lambda snapshot: True, loop.status, loop.meters)
        for publish in (stuck, failing, working)
    ]
    try:
        loop.agent_for(*sinks).run_once(frozenset({START}))
        assert done.wait(PATIENCE)
        assert failed.wait(PATIENCE)
        assert loop.status.age() is None
    finally:
        gate.set()
        for sink in sinks:
            sink.close()


# --- when it scans


@pytest.mark.parametrize("reason", [STOP, RELOAD])
def test_a_stop_or_reload_ends_the_loop(reason: Reason) -> None:
    """A stop or a reload ends the loop at once, whatever the other reasons; no request follows."""
    loop = Loop()
    events = FakeEvents(loop.clock, [(1.0, {reason, STATE, Reason.TIMER})], STOP)
    assert loop.agent.run(events) == {reason, STATE, Reason.TIMER}
    assert len(loop.sink.snapshots) == 1


def test_without_events_the_machine_is_scanned_once_per_interval() -> None:
    loop = Loop()
    run(loop, [(3.5 * INTERVAL, {STATE})])
    assert loop.scanner.count == 1 + 3
    assert loop.count("zonewise_wakeups_total", reason="timer") == 3
    assert loop.count("zonewise_wakeups_total", reason="start") == 1


def test_pod_events_do_not_delay_the_scan_of_the_machine() -> None:
    """A continuous stream of pod events does not delay the scan of the machine."""
    loop = Loop()
    run(loop, [(0.5, {STATE})] * int(2.5 * INTERVAL / 0.5))
    assert loop.count("zonewise_wakeups_total", reason="timer") == 2
    assert loop.scanner.count == 1 + 2


def test_the_kubelet_is_polled_if_no_event_reports_the_end_of_a_pod() -> None:
    """Without cgroups, List is called several times a second; a report is made only if the response changed."""
    loop = Loop()
    loop.cgroups.visible = False
    loop.kubelet.managers.admit(pod("a", 2))
    run(loop, [(1.05, {STATE})])
    assert loop.kubelet.calls.count("List") == 1 + 10 + 1
    assert loop.kubelet.calls.count("GetAllocatableResources") == 1
    assert len(loop.sink.snapshots) == 2
    before = len(loop.sink.snapshots)
    loop.run_once(Reason.POLL)
    assert len(loop.sink.snapshots) == before
    loop.kubelet.managers.remove("uid-a")
    loop.run_once(Reason.POLL)
    assert len(loop.sink.snapshots) == before + 1


def test_a_kubelet_without_changes_is_polled_less_often() -> None:
    """Polls cost CPU time. A change makes them frequent again."""
    loop = Loop()
    loop.cgroups.visible = False
    waited = run(loop, [(14.9, {STATE})]).waited
    assert [round(seconds or 0.0, 1) for seconds in waited] == 100 * [0.1] + 6 * [1.0]
    loop.kubelet.managers.admit(pod("a", 2))
    loop.run_once(STATE)
    assert run(loop, [(0.05, {STATE})]).waited[0] == pytest.approx(0.1)


def test_memory_that_the_kernel_initialises_late_is_one_change() -> None:
    """Each scan finds more memory; the report does not change until the size has settled."""
    loop = Loop()
    sizes: list[str] = []
    for gib in (4, 5, 7, 9, 9, 9):
        zones = tuple(zone._replace(memory=gib << 30) for zone in SCAN.machine.zones)
        loop.scanner.result = SCAN._replace(machine=SCAN.machine._replace(zones=zones))
        loop.run_once(Reason.TIMER)
        published = loop.sink.published
        assert published is not None
        sizes.append(str(published["zones"][0]["resources"][1]["capacity"]))
    assert sizes == [str(4 << 30)] * 4 + [str(9 << 30)] * 2


def test_a_poll_that_fails_is_retried() -> None:
    loop = Loop()
    loop.cgroups.visible = False
    loop.run_once(Reason.START)
    loop.kubelet.mood = DOWN
    assert loop.run_once(Reason.POLL) is not None
    assert loop.sink.snapshots[-1].usage is None


def test_a_scan_of_the_machine_postpones_the_next() -> None:
    """The interval starts at the last scan of the machine, whatever its reason."""
    loop = Loop()
    events = run(loop, [(40.0, {Reason.HARDWARE}), (30.0, {STATE})])
    assert events.waited == [INTERVAL, INTERVAL, pytest.approx(30.0)]
    assert loop.count("zonewise_wakeups_total", reason="timer") == 0


@pytest.mark.parametrize("mood", [DOWN, STARTING, FORGETFUL, GARBLED])
def test_pauses_grow_while_the_kubelet_fails(mood: str) -> None:
    """The pauses grow from a tenth of a second to a few seconds; a valid response resets them."""
    loop = Loop()
    loop.kubelet.mood = mood
    pauses = [loop.run_once(Reason.RETRY) for _ in range(9)]
    assert pauses == [KUBELET_BACKOFF.delay(failures, 1.0) for failures in range(9)]
    assert pauses[0] == pytest.approx(0.1)
    assert pauses[-1] == KUBELET_BACKOFF.cap
    loop.kubelet.mood = OK
    assert loop.run_once(Reason.RETRY) is None
    loop.kubelet.mood = mood
    assert loop.run_once(STATE if mood != STARTING else Reason.SOCKET) == pauses[0]


def test_it_retries_without_an_event() -> None:
    """A kubelet that comes back without an event is found by a retry, without a scan of the machine."""
    loop = Loop()
    loop.kubelet.mood = DOWN
    run(loop, [(5.0, {STATE})])
    assert loop.count("zonewise_wakeups_total", reason="retry") >= 4
    assert loop.scanner.count == 1


def test_a_defect_costs_one_scan(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The exception is logged with its traceback. Passes continue with growing pauses, and without a heartbeat."""
    loop = Loop()
    loop.run_once(START)
    before = loop.sink.published
    with monkeypatch.context() as broken:
        broken.setattr("zonewise.daemon.agent.node_usage", None)
        run(loop, [(20.0, {STATE})])
    assert caplog.text.count("TypeError: 'NoneType' object is not callable") >= 5
    assert loop.sink.published == before
    assert loop.status.silence() == pytest.approx(20)
    run(loop, [])
    assert loop.status.silence() == 0


def test_heartbeat_and_readiness() -> None:
    """Each pass of the loop is a heartbeat, even while the kubelet is down; the age of the published report grows."""
    loop = Loop()
    loop.status.expect(["nrt"])
    loop.run_once(START)
    loop.status.published("nrt")
    loop.clock.advance(50)
    assert (loop.status.silence(), loop.status.age()) == (50, 50)
    loop.kubelet.mood = DOWN
    loop.run_once(Reason.TIMER)
    assert (loop.status.silence(), loop.status.age()) == (0, 50)


# --- what it logs


def test_a_problem_is_logged_when_it_appears_and_when_it_is_resolved(caplog: pytest.LogCaptureFixture) -> None:
    """Each is logged once, however many passes lie between them."""
    loop = Loop()
    loop.kubelet.mood = DOWN
    with caplog.at_level(logging.INFO, "zonewise"):
        for _ in range(5):
            loop.run_once(Reason.RETRY)
        loop.kubelet.mood = OK
        for _ in range(5):
            loop.run_once(STATE)
    problem = "the kubelet's allocations cannot be read: GetAllocatableResources on k.sock: cannot connect: "
    logged = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert logged == [
        ("WARNING", f"{problem}Connection refused"),
        ("INFO", f"resolved: {problem}Connection refused"),
    ]


def test_publishing_runs_in_its_own_thread() -> None:
    """The loop never waits for the API server."""
    loop = Loop()
    gate = threading.Event()
    published: list[Snapshot] = []

    def publish(snapshot: Snapshot) -> WriteResult:
        gate.wait(PATIENCE)
        published.append(snapshot)
        return NO_WRITE

    sink = PublishingSink("nrt", publish, lambda snapshot: snapshot.nrt is not None, loop.status, loop.meters)
    loop.agent = loop.agent_for(sink)
    try:
        for cpus in range(1, 5):
            loop.kubelet.managers.admit(pod(f"p{cpus}", cpus))
            loop.run_once(STATE)
        gate.set()
        assert sink.wait(PATIENCE)
        eventually(lambda: published[-1] is loop.status.snapshot)
        assert len(published) <= 2
    finally:
        sink.close()


def test_without_a_kubelet() -> None:
    """Labels are published, reports are not, and nothing is retried."""
    loop = Loop()
    options = AgentOptions(NODE, NrtOptions(), exclude_none, INTERVAL)
    agent = Agent(loop.scanner, None, (loop.sink,), options, loop.status, loop.meters, clock=loop.clock)
    assert agent.run_once(frozenset({START})) is None
    [snapshot] = loop.sink.snapshots
    assert snapshot.labels
    assert (snapshot.nrt, snapshot.usage, snapshot.problems) == (None, None, ())
    assert loop.kubelet.calls == []
