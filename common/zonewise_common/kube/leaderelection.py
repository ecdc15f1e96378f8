"""Leader election on a Lease: of all processes that want the same lease, at most one leads.

Why never two lead, without clocks that agree: every write names the resource version that it replaces, so that of two
that take the lease at once one fails. A holder stops leading `deadline` seconds after it *sent* its last good renewal.
Another takes the lease no earlier than its whole duration after it *saw* that renewal, which was later. The duration is
longer than the deadline by the time of one request, so that the holder has been told in time.
Source of the rule: client-go tools/leaderelection/leaderelection.go.
"""

from __future__ import annotations

import datetime
import logging
import math
import random
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from zonewise_common.kube.errors import AlreadyExists, BadResponse, Conflict, KubeError, NotFound
from zonewise_common.kube.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.resources import Resource

log = logging.getLogger(__name__)

Object = dict[str, Any]


def since_boot() -> float:
    """Return seconds that also pass while a machine is suspended: a leader that wakes up must know how late it is."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseTimes(NamedTuple):
    """How long things take, in seconds; the defaults are those of kube-scheduler."""

    lease_duration: float = 15.0
    """After which others may take a lease that is not renewed."""
    renew_deadline: float = 10.0
    """After which a holder that cannot renew stops to lead."""
    retry_period: float = 2.0
    """Between two attempts."""


class LeaseClient(Protocol):
    """What of a Client is needed."""

    timeout: float

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object:
        """Return a Lease."""
        ...

    def create(self, resource: Resource, obj: Object, *, namespace: str | None = None) -> Object:
        """Create a Lease."""
        ...

    def replace(self, resource: Resource, obj: Object, *, namespace: str | None = None) -> Object:
        """Replace a Lease."""
        ...


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a Lease says of who leads (staging/src/k8s.io/api/coordination/v1/types.go)."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class ObservedLease(NamedTuple):
    """A Lease as the server has it."""

    lease: Object
    spec: LeaseSpec
    observed_at: float
    """When this very state of it was first seen, by our clock."""


def may_acquire(observed: ObservedLease, identity: str, now: float) -> bool:
    """Tell whether a lease is free, ours, or has run out while we watched."""
    holder, duration = observed.spec.holder_identity, observed.spec.lease_duration_seconds
    return not holder or holder == identity or now >= observed.observed_at + (duration or 0)


class LeaderElector:
    """One of those who want a lease.

    `leading` is what to ask before every act that only the leader may do: it turns false by the clock, also while a
    request hangs. The callbacks run in the elector's thread and must return soon.
    """

    def __init__(
        self,
        client: LeaseClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        on_started_leading: Callable[[], object],
        on_stopped_leading: Callable[[], object],
        times: LeaseTimes = LeaseTimes(),  # noqa: B008 -- immutable
        clock: Callable[[], float] = since_boot,
    ) -> None:
        """Take the lease's name, and an identity that no other process has, not even an earlier self.

        Raises ValueError where times and the client's timeout do not fit: a renewal that hangs has to end before
        others take over.
        """
        if (
            not 0
            < times.retry_period
            < times.renew_deadline
            < times.renew_deadline + client.timeout
            <= times.lease_duration
        ):
            raise ValueError(
                f"retry {times.retry_period:g} < deadline {times.renew_deadline:g} and deadline + timeout of a request "
                f"{client.timeout:g} <= duration {times.lease_duration:g} do not hold"
            )
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._on_started = on_started_leading
        self._on_stopped = on_stopped_leading
        self._times = times
        self._clock = clock
        self._seen: ObservedLease | None = None
        self._until = float("-inf")
        self._told = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease-{name}", daemon=True)

    @property
    def is_leader(self) -> bool:
        """Tell whether we lead now."""
        return self._clock() < self._until

    @property
    def holder(self) -> str | None:
        """Return who held the lease when it was last seen; None where nobody did."""
        return (self._seen.spec.holder_identity or None) if self._seen else None

    def start(self) -> None:
        """Begin to compete, in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Stop to compete: a leader stops to lead, is told so, and then gives the lease back for others to take."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(self._times.lease_duration)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.step()
            # those who wait come at random times, the leader regularly
            self._stopping.wait(self._times.retry_period * (1 if self.is_leader else 1 + random.random()))  # noqa: S311
        self.release()

    def step(self) -> None:
        """Try once to get or renew the lease, and tell what has become of us."""
        try:
            self._try()
        except KubeError as error:
            log.warning("Lease %s/%s: %s", self._namespace, self._name, error)
        self._tell()

    def release(self) -> None:
        """Stop to lead, tell, and only then give the lease back."""
        held = self._seen if self.is_leader else None
        self._until = float("-inf")
        self._tell()
        if held is None:
            return
        try:
            self._write(held, LeaseSpec(None, 1, renew_time=_now(), lease_transitions=held.spec.lease_transitions))
        except KubeError as error:
            log.warning("Lease %s/%s is not given back and will run out: %s", self._namespace, self._name, error)

    def _try(self) -> None:
        if not self.is_leader or self._seen is None:
            self._look()
        try:
            self._take()
        except (Conflict, AlreadyExists, NotFound):
            # somebody wrote it: we, in a renewal of which the answer was lost, or another leader
            if self.is_leader:
                self._look()
                if self.holder != self._identity:
                    self._until = float("-inf")

    def _look(self) -> None:
        """See what the lease is now, and since when it has been so."""
        try:
            lease = self._client.get(LEASES, self._name, namespace=self._namespace)
        except NotFound:
            self._seen = None
            return
        if self._seen is None or _version(self._seen.lease) != _version(lease):
            self._seen = self._see(lease)

    def _take(self) -> None:
        sent = self._clock()
        seen = self._seen
        if seen is not None and not may_acquire(seen, self._identity, sent):
            self._until = float("-inf")
            return
        old = seen.spec if seen else LeaseSpec()
        ours = old.holder_identity == self._identity
        self._write(
            seen,
            LeaseSpec(
                self._identity,
                math.ceil(self._times.lease_duration),
                acquire_time=old.acquire_time if ours else _now(),
                renew_time=_now(),
                lease_transitions=(old.lease_transitions or 0) + (0 if ours or seen is None else 1),
            ),
        )
        self._until = sent + self._times.renew_deadline

    def _write(self, seen: ObservedLease | None, spec: LeaseSpec) -> None:
        lease = dict(seen.lease) if seen else {"metadata": {"name": self._name, "namespace": self._namespace}}
        known = {**lease, "apiVersion": LEASES.api_version, "kind": LEASES.kind}
        known["spec"] = {name: value for name, value in msgspec.to_builtins(spec).items() if value is not None}
        write = self._client.replace if seen else self._client.create
        self._seen = self._see(write(LEASES, known, namespace=self._namespace))

    def _see(self, lease: Object) -> ObservedLease:
        try:
            return ObservedLease(lease, msgspec.convert(lease.get("spec") or {}, LeaseSpec), self._clock())
        except msgspec.ValidationError as error:
            raise BadResponse(f"the spec makes no sense: {error}") from error

    def _tell(self) -> None:
        leads = self.is_leader
        if leads == self._told:
            return
        self._told = leads
        log.info("Lease %s/%s: %s", self._namespace, self._name, "we lead" if leads else "we no longer lead")
        try:
            (self._on_started if leads else self._on_stopped)()
        except Exception:  # the election goes on whatever the leader does
            log.exception("Lease %s/%s: the callback failed", self._namespace, self._name)


def _version(lease: Object) -> str:
    return str(lease["metadata"]["resourceVersion"])


def _now() -> str:
    """Return the time as a Lease writes it, for humans only: no decision depends on it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
