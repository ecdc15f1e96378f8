"""Leader election on a Lease.

Invariant: at most one of the processes that compete for a lease leads. Their clocks need not agree.

1. Every write names the resource version that it replaces. If two processes acquire the lease at once, one of them
   fails.
2. A holder stops leading `renew_deadline` seconds after it *sent* its last successful renewal.
3. Another process acquires the lease no earlier than `lease_duration` seconds after it *saw* that renewal. It saw the
   renewal after the holder sent it.
4. The duration exceeds the deadline by the timeout of one request. The holder has stopped before the lease is free.

Source of the rules: client-go tools/leaderelection/leaderelection.go.
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
from zonewise_common.kube.failure_log import FailureLog
from zonewise_common.kube.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.resources import Resource

log = logging.getLogger(__name__)

Object = dict[str, Any]


def since_boot() -> float:
    """Return the seconds of a clock that also runs during suspension: a resumed leader must notice the delay."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseTimes(NamedTuple):
    """The durations of an election, in seconds; the defaults are kube-scheduler's."""

    lease_duration: float = 15.0
    """Seconds after which a lease without renewal is free."""
    renew_deadline: float = 10.0
    """Seconds after which a holder that cannot renew the lease stops leading."""
    retry_period: float = 2.0
    """The time between two attempts."""


class LeaseClient(Protocol):
    """The methods of Client that an election needs."""

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
    """The spec of a Lease (staging/src/k8s.io/api/coordination/v1/types.go)."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class ObservedLease(NamedTuple):
    """A Lease as the server has stored it."""

    lease: Object
    spec: LeaseSpec
    observed_at: float
    """When this resource version was first read, on the local clock."""


def may_acquire(observed: ObservedLease, identity: str, now: float) -> bool:
    """Return whether a lease is free, held by this identity, or expired since it was observed."""
    holder, duration = observed.spec.holder_identity, observed.spec.lease_duration_seconds
    return not holder or holder == identity or now >= observed.observed_at + (duration or 0)


class LeaderElector:
    """One process that competes for a lease.

    Check `is_leader` before every action of a leader: the clock makes it false, even while a request hangs. The
    callbacks run in the elector's thread and must return soon.
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
        """Create an elector for a lease, with an identity that no other process uses or has used.

        Raises ValueError if the durations do not suit the client's timeout: a hanging renewal must end before another
        process acquires the lease.
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
        self._observed: ObservedLease | None = None
        self._leads_until = float("-inf")
        self._reported = False
        lease = f"Lease {namespace}/{name}"
        self._failures = FailureLog(log, lease, f"{lease}: the election works again")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease-{name}", daemon=True)

    @property
    def is_leader(self) -> bool:
        """Return whether this process currently leads."""
        return self._clock() < self._leads_until

    @property
    def holder(self) -> str | None:
        """Return the holder of the lease when it was last read; None if it was free."""
        return (self._observed.spec.holder_identity or None) if self._observed else None

    def start(self) -> None:
        """Start to compete in a separate thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop competing. A leader first stops leading, then its callback returns, and then the lease is released."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(self._times.lease_duration)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.step()
            # the leader retries at a fixed rate, the other processes at random times
            self._stopping.wait(self._times.retry_period * (1 if self.is_leader else 1 + random.random()))  # noqa: S311
        self.release()

    def step(self) -> None:
        """Try once to acquire or renew the lease, and run the callback if the leadership has changed."""
        try:
            self._try()
            self._failures.end()
        except KubeError as error:
            self._failures.add(error)
        except Exception:  # a defect of this program must not end the thread
            log.exception("Lease %s/%s: trying again", self._namespace, self._name)
        self._report()

    def release(self) -> None:
        """Stop leading, run the callback, and only then release the lease."""
        observed = self._observed if self.is_leader else None
        self._leads_until = float("-inf")
        self._report()
        if observed is None:
            return
        try:
            self._write(
                observed, LeaseSpec(None, 1, renew_time=_now(), lease_transitions=observed.spec.lease_transitions)
            )
        except KubeError as error:
            log.warning("Lease %s/%s is not released and will expire: %s", self._namespace, self._name, error)

    def _try(self) -> None:
        if not self.is_leader or self._observed is None:
            self._refresh()
        try:
            self._acquire()
        except (Conflict, AlreadyExists, NotFound) as error:
            if isinstance(error, NotFound) and self._observed is None:
                raise  # there is no such namespace
            # another writer: another leader, or this process in a renewal whose response was lost
            if self.is_leader:
                self._refresh()
                if self.holder != self._identity:
                    self._leads_until = float("-inf")

    def _refresh(self) -> None:
        """Read the lease; a new resource version counts as observed from now on."""
        try:
            lease = self._client.get(LEASES, self._name, namespace=self._namespace)
        except NotFound:
            self._observed = None
            return
        if self._observed is None or _version(self._observed.lease) != _version(lease):
            self._observed = self._observe(lease)

    def _acquire(self) -> None:
        sent = self._clock()
        observed = self._observed
        if observed is not None and not may_acquire(observed, self._identity, sent):
            self._leads_until = float("-inf")
            return
        old = observed.spec if observed else LeaseSpec()
        renews = old.holder_identity == self._identity
        self._write(
            observed,
            LeaseSpec(
                self._identity,
                math.ceil(self._times.lease_duration),
                acquire_time=old.acquire_time if renews else _now(),
                renew_time=_now(),
                lease_transitions=(old.lease_transitions or 0) + (0 if renews or observed is None else 1),
            ),
        )
        self._leads_until = sent + self._times.renew_deadline

    def _write(self, observed: ObservedLease | None, spec: LeaseSpec) -> None:
        lease = dict(observed.lease) if observed else {"metadata": {"name": self._name, "namespace": self._namespace}}
        body = {**lease, "apiVersion": LEASES.api_version, "kind": LEASES.kind}
        body["spec"] = {name: value for name, value in msgspec.to_builtins(spec).items() if value is not None}
        write = self._client.replace if observed else self._client.create
        self._observed = self._observe(write(LEASES, body, namespace=self._namespace))

    def _observe(self, lease: Object) -> ObservedLease:
        try:
            return ObservedLease(lease, msgspec.convert(lease.get("spec") or {}, LeaseSpec), self._clock())
        except msgspec.ValidationError as error:
            raise BadResponse(f"the spec is invalid: {error}") from error

    def _report(self) -> None:
        leads = self.is_leader
        if leads == self._reported:
            return
        self._reported = leads
        log.info("Lease %s/%s: %s", self._namespace, self._name, "leading" if leads else "no longer leading")
        try:
            (self._on_started if leads else self._on_stopped)()
        except Exception:  # an error of the leader does not end the election
            log.exception("Lease %s/%s: the callback failed", self._namespace, self._name)


def _version(lease: Object) -> str:
    return str(lease["metadata"]["resourceVersion"])


def _now() -> str:
    """Return the current time in the notation of a Lease. It is for people only: no decision depends on it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
