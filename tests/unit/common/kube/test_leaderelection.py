"""Leader election: never two leaders for any requests and clocks, soon one, and no holder after a release."""

from __future__ import annotations

import copy
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.waiting import PATIENCE
from zonewise_common.kube.errors import AlreadyExists, Conflict, NotFound, ServerError, TransportError
from zonewise_common.kube.leaderelection import LeaderElector, LeaseTimes

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.resources import Resource

Object = dict[str, Any]
TIMES = LeaseTimes()
TIMEOUT = 5.0


class World:
    """One clock, one Lease on a server with optimistic locking, and the fate of requests."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lease: Object | None = None
        self.version = 0
        self.writes = 0
        self.electors: list[LeaderElector] = []
        self.log: list[str] = []
        self.fate: Callable[[], tuple[float, str, float]] = lambda: (0.0, "", 0.0)
        """Seconds until a request arrives, its fate, and seconds until its response arrives."""
        self.meanwhile: Callable[[], None] = lambda: None

    def add(self, name: str, skew: float = 0.0) -> LeaderElector:
        """Add a candidate whose clock differs by `skew`."""
        elector = LeaderElector(
            Api(self), namespace="default", name="zonewise", identity=name, times=TIMES,
            on_started_leading=lambda: self.log.append(f"{name} leads"),
            on_stopped_leading=lambda: self.log.append(f"{name} stops"),
            clock=lambda: self.now + skew,
        )  # fmt: skip
        self.electors.append(elector)
        return elector

    def pass_time(self, seconds: float) -> None:
        """Advance the clock in small steps; fail if two electors lead after any of them."""
        until = self.now + seconds
        while True:
            assert sum(elector.is_leader for elector in self.electors) <= 1
            if self.now >= until:
                return
            self.now = min(until, self.now + 0.5)

    def request(self, act: Callable[[], Object]) -> Object:
        before, fate, after = self.fate()
        self.pass_time(before)
        self.meanwhile()
        if fate == "lost":
            raise TransportError("the request was lost")
        response = act()
        self.meanwhile()
        self.pass_time(after)
        if fate == "unanswered":
            raise TransportError("the answer was lost")
        return response


class Api:
    """The three verbs on the world's only Lease."""

    timeout = TIMEOUT

    def __init__(self, world: World) -> None:
        self.world = world

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object:
        return self.world.request(self._get)

    def create(self, resource: Resource, obj: Object, *, namespace: str | None = None) -> Object:
        return self.world.request(lambda: self._write(obj, new=True))

    def replace(self, resource: Resource, obj: Object, *, namespace: str | None = None) -> Object:
        return self.world.request(lambda: self._write(obj, new=False))

    def _get(self) -> Object:
        if self.world.lease is None:
            raise NotFound(404, "NotFound", "no lease")
        return copy.deepcopy(self.world.lease)

    def _write(self, obj: Object, *, new: bool) -> Object:
        if new and self.world.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "there")
        if not new and obj["metadata"]["resourceVersion"] != self._get()["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "changed")
        self.world.version += 1
        self.world.writes += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.world.version)}
        self.world.lease = copy.deepcopy({**obj, "metadata": metadata})
        return self._get()


FATES = st.tuples(
    st.sampled_from([0.0, 0.1, 2.0, 4.5]),
    st.sampled_from(["", "", "", "lost", "unanswered"]),
    st.sampled_from([0.0, 0.4]),
)
RUNS = st.tuples(
    st.sampled_from(["a", "b", "ab", "ba"]), st.integers(1, 12), st.sampled_from([0.0, 0.5, 2.0]), st.booleans(), FATES
)
"""Which electors step, how often, how many seconds apart, whether one then resigns, and the fate of the requests."""


@settings(max_examples=150, deadline=None)
@given(st.lists(RUNS, max_size=12), st.floats(-1e6, 1e6))
def test_never_two_lead(runs: list[tuple[str, int, float, bool, tuple[float, str, float]]], skew: float) -> None:
    """Two electors never lead at once, and exactly one leads after the faults end.

    Their clocks disagree. Requests are lost, late, or applied without a response, and one elector steps during a
    request of the other.
    """
    world = World()
    electors = {"a": world.add("a"), "b": world.add("b", skew)}
    acting: set[str] = set()

    def step(name: str) -> None:
        if name not in acting:  # each has only one thread
            acting.add(name)
            electors[name].step()
            acting.discard(name)

    for names, times, apart, resigns, fate in runs:
        world.fate = partial(tuple, fate)
        world.meanwhile = partial(step, names[-1])
        for name in names * times:
            step(name)
            world.pass_time(apart)
        if resigns:
            electors[names[0]].release()
    world.fate, world.meanwhile = (lambda: (0.0, "", 0.0)), (lambda: None)
    for _ in range(30):
        step("a")
        step("b")
        world.pass_time(TIMES.retry_period)
    assert sum(elector.is_leader for elector in electors.values()) == 1


def test_first_come() -> None:
    """The first elector acquires the lease and keeps it; the other waits."""
    world = World()
    first, second = world.add("a"), world.add("b")
    for _ in range(20):
        first.step()
        second.step()
        world.pass_time(2)
    assert world.log == ["a leads"]
    assert (first.is_leader, second.is_leader, second.holder) == (True, False, "a")
    assert world.lease is not None
    spec = world.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)


def test_a_leader_that_vanishes_is_followed() -> None:
    """The other elector takes over only after it has observed the Lease for the whole lease duration."""
    world = World()
    first, second = world.add("a"), world.add("b")
    first.step()
    acquired = world.now
    while not second.is_leader:
        second.step()
        world.pass_time(1)
    assert 15 <= world.now - acquired <= 17
    assert not first.is_leader
    first.step()
    assert world.log == ["a leads", "b leads", "a stops"]
    assert world.lease is not None
    assert world.lease["spec"]["leaseTransitions"] == 1


def test_a_leader_that_cannot_renew_stops() -> None:
    """The leader's next step after its deadline stops it, before another elector can lead."""
    world = World()
    leader = world.add("a")
    leader.step()
    world.fate = lambda: (0.0, "lost", 0.0)
    while leader.is_leader:
        leader.step()
        world.pass_time(2)
    leader.step()
    assert world.log == ["a leads", "a stops"]
    assert world.now - 1000 <= TIMES.lease_duration


def test_release_calls_back_before_it_writes() -> None:
    """Work has stopped before the lease is released, so that the next elector can acquire it at once."""
    world = World()
    first, second = world.add("a"), world.add("b")
    first.step()
    second.step()
    first.release()
    second.step()
    assert world.log == ["a leads", "a stops", "b leads"]


def test_a_lost_response_keeps_the_lead() -> None:
    """A renewal that was applied without a response causes only a conflict with the elector's own write."""
    world = World()
    leader = world.add("a")
    leader.step()
    for fate in ("unanswered", "", "", ""):
        world.fate = partial(tuple, (0.0, fate, 0.0))
        world.pass_time(2)
        leader.step()
    assert world.log == ["a leads"]
    assert leader.is_leader


def test_an_error_of_any_type_does_not_end_the_election() -> None:
    """A library may raise an error type of its own."""
    world = World()
    elector = world.add("a")

    def fail() -> None:
        raise RuntimeError("a fault of a library")

    world.meanwhile = fail
    elector.step()
    assert not elector.is_leader
    world.meanwhile = lambda: None
    elector.step()
    assert elector.is_leader


def test_a_namespace_that_does_not_exist_is_logged_until_it_does(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    elector = world.add("a")

    def fail() -> None:
        raise NotFound(404, "NotFound", 'namespaces "default" not found')

    world.meanwhile = fail
    elector.step()
    assert 'Lease default/zonewise: 404 NotFound: namespaces "default" not found' in caplog.text
    assert not elector.is_leader
    world.meanwhile = lambda: None
    elector.step()
    assert elector.is_leader


def test_an_outage_is_logged_once_for_each_kind_of_failure(caplog: pytest.LogCaptureFixture) -> None:
    """The next outage is logged again, since the election has worked meanwhile."""
    caplog.set_level("INFO", "zonewise_common.kube.leaderelection")
    world = World()
    elector = world.add("a")
    for _ in range(2):
        for error in (TransportError("refused"), ServerError(503, "", "starting"), TransportError("reset")) * 5:
            world.meanwhile = partial(fail_with, error)
            elector.step()
        world.meanwhile = lambda: None
        elector.step()
        elector.step()
    outage = ["Lease default/zonewise: refused", "Lease default/zonewise: 503: starting"]
    expected = [*outage, "Lease default/zonewise: the election works again"]
    assert [message for message in caplog.messages if not message.endswith("leading")] == expected * 2


def fail_with(error: Exception) -> None:
    raise error


def test_times_that_do_not_fit() -> None:
    """A deadline that leaves no time for the last request raises ValueError."""
    with pytest.raises(ValueError, match="duration 12"):
        LeaderElector(
            Api(World()), namespace="n", name="l", identity="a", times=LeaseTimes(12, 10, 2),
            on_started_leading=lambda: None, on_stopped_leading=lambda: None,
        )  # fmt: skip


def test_a_thread_of_its_own() -> None:
    """After start() it leads, and after close() it has resigned. A failing callback does not end the election."""
    world = World()
    calls: list[str] = []
    leads = threading.Event()

    def fail() -> None:
        calls.append("leads")
        leads.set()
        raise RuntimeError("a fault of the callback")

    elector = LeaderElector(
        Api(world),
        namespace="n",
        name="l",
        identity="a",
        on_started_leading=fail,
        on_stopped_leading=lambda: calls.append("stops"),
    )
    elector.start()
    assert leads.wait(PATIENCE)
    elector.close()
    assert calls == ["leads", "stops"]
    assert world.lease is not None
    assert "holderIdentity" not in world.lease["spec"]
