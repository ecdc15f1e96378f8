"""The controller thread: it empties the inbox, lets the controller decide, and hands the writes to the writer.

Reflectors and writers only put messages into the inbox. So the controller needs no lock, and a step takes account of
all messages that have arrived. At least BATCH_TIME passes between two steps, so that a burst of events costs only one
scheduling pass. While the rate limit delays new writes, the time is up to MAX_BATCH_TIME: an earlier decision would be
written no earlier. If a program has disabled garbage collection for its start, it is enabled after the first step.
"""

from __future__ import annotations

import gc
import logging
import queue
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.backfill.forecast.history import ForecastHistory
    from zonewise_scheduler.backfill.state.checkpoint import Checkpoint
    from zonewise_scheduler.controller.controller import QueueController
    from zonewise_scheduler.controller.nodes.types import TrackedNode, TrackedReport
    from zonewise_scheduler.controller.observed_pod import WatchedPod
    from zonewise_scheduler.controller.status.reporter import StatusReporter
    from zonewise_scheduler.controller.types import Json, ObjectKey, Write
    from zonewise_scheduler.controller.writing.outcome import Outcome
    from zonewise_scheduler.nodes.devices.allocated_claims import AllocatedClaim
    from zonewise_scheduler.nodes.devices.resource_slices import ResourceSlice

log = logging.getLogger(__name__)

BATCH_TIME = 0.01
"""Minimum seconds between two steps."""
MAX_BATCH_TIME = 0.1
"""Maximum of that time in seconds, so that a call of another thread waits no longer."""
MAX_WAIT = 1.0
"""Maximum seconds between two steps without messages. Each step checks leadership and timers."""
_STOP_TIMEOUT = 2.0


class Observation(NamedTuple):
    """An object from a watch; None: it was deleted."""

    key: ObjectKey
    obj: Json | None


class Listing(NamedTuple):
    """A complete listing: all objects of a kind that existed at a resource version have been observed."""

    resource: Resource
    version: int


class NodeObservation(NamedTuple):
    """A Node from a watch; None: it was deleted."""

    name: str
    node: TrackedNode | None


class ReportObservation(NamedTuple):
    """A NodeResourceTopology from a watch; None: it was deleted."""

    node: str
    report: TrackedReport | None


class SliceObservation(NamedTuple):
    """A ResourceSlice from a watch; None: it was deleted."""

    name: str
    slice: ResourceSlice | None


class ClaimObservation(NamedTuple):
    """A ResourceClaim from a watch; None: it was deleted."""

    namespace: str
    name: str
    claim: AllocatedClaim | None


class PodObservation(NamedTuple):
    """A pod from a watch; None: it was deleted."""

    namespace: str
    name: str
    pod: WatchedPod | None


class WriteEnded(NamedTuple):
    """The end of a write, with its outcome."""

    write: Write
    outcome: Outcome


class WriteDelayed(NamedTuple):
    """A write whose outcome is still unknown, with the outcome of its last attempt."""

    write: Write
    outcome: Outcome


class Leadership(NamedTuple):
    """A change of leadership: whether this replica leads from now on."""

    leads: bool
    checkpoint: Checkpoint | None = None
    """Checkpoint of the last leader."""
    forecasts: ForecastHistory | None = None
    """Forecast history of the last leader."""


class Call(NamedTuple):
    """A function of the controller whose result another thread waits for."""

    function: Callable[[QueueController], Any]
    result: Future[Any]


Message = (
    Observation
    | Listing
    | NodeObservation
    | ReportObservation
    | SliceObservation
    | ClaimObservation
    | PodObservation
    | WriteEnded
    | WriteDelayed
    | Leadership
    | Call
)
T = TypeVar("T")


class ControllerLoop:
    """Runs the controller thread. It works while the context is entered."""

    def __init__(
        self,
        controller: QueueController,
        submit: Callable[[Write], object],
        clock: Callable[[], float],
        reporter: StatusReporter | None = None,
        write_delay: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Set the controller and the functions around it.

        `submit` takes a write; `clock` returns seconds since 1970 and never goes back. `reporter`: reports on the queue
        after each step. `write_delay`: returns the seconds for which a write that is submitted now waits.
        """
        self._write_delay = write_delay
        self._reporter = reporter
        self._controller = controller
        self._submit = submit
        self._clock = clock
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="controller", daemon=True)
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._inbox.put(None)
        self._thread.join(_STOP_TIMEOUT)

    def put(self, message: Message) -> None:
        """Put a message into the inbox."""
        self._inbox.put(message)

    def call(self, function: Callable[[QueueController], T], timeout: float) -> T:
        """Return the result of a function that runs in the controller's thread, between two steps.

        `timeout`: in seconds. Raises TimeoutError, and any error of the function.
        """
        result: Future[T] = Future()
        self._inbox.put(Call(function, result))
        try:
            return result.result(timeout)
        except FutureTimeout as error:
            result.cancel()
            raise TimeoutError(f"the controller has not responded for {timeout:g} s") from error

    @property
    def inbox_length(self) -> int:
        """Return the number of waiting messages."""
        return self._inbox.qsize()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._receive()
            try:
                for write in self._controller.step(self._clock()):
                    self._submit(write)
                if self._reporter is not None:
                    self._reporter.step(self._clock())
            except Exception:  # a bug must not end the loop; the next step starts from the objects
                log.exception("a step of the controller failed")
            if not gc.isenabled():  # the first step: its objects are permanent, so collections need not scan them
                gc.freeze()
                gc.enable()
            self._stopping.wait(min(MAX_BATCH_TIME, max(BATCH_TIME, self._write_delay())))

    def _receive(self) -> None:
        """Wait for a message, or until the controller's wake time, then take all waiting messages."""
        timeout = min(MAX_WAIT, max(0.0, self._controller.wake_at - self._clock()))
        try:
            self._handle(self._inbox.get(timeout=timeout))
            while True:
                self._handle(self._inbox.get_nowait())
        except queue.Empty:
            return

    def _handle(self, message: Message | None) -> None:
        try:
            match message:
                case Observation() | Listing() | SliceObservation() | ClaimObservation():
                    self._observe(message)
                case PodObservation(namespace, name, pod):
                    self._controller.observe_pod(namespace, name, pod)
                case NodeObservation(name, node):
                    self._controller.observe_node(name, node)
                case ReportObservation(node, report):
                    self._controller.observe_report(node, report)
                case WriteEnded() | WriteDelayed():
                    self._note_write(message)
                case Leadership():
                    self._lead(message)
                case Call():
                    _run_call(message, self._controller)
                case None:
                    pass
        except Exception:  # an object that cannot be handled must not block others
            log.exception("a message to the controller failed: %.200s", message)

    def _lead(self, message: Leadership) -> None:
        self._controller.lead(message.leads, message.checkpoint)
        if self._reporter is not None and message.forecasts is not None:
            self._reporter.history = message.forecasts

    def _observe(self, message: Observation | Listing | SliceObservation | ClaimObservation) -> None:
        if isinstance(message, Observation):
            self._controller.observe(message.key, message.obj, self._clock())
        elif isinstance(message, SliceObservation):
            self._controller.observe_slice(message.name, message.slice)
        elif isinstance(message, ClaimObservation):
            self._controller.observe_claim(message.namespace, message.name, message.claim)
        else:
            self._controller.end_listing(message.resource, message.version, self._clock())

    def _note_write(self, message: WriteEnded | WriteDelayed) -> None:
        (write, outcome), now, reporter = message, self._clock(), self._reporter
        if isinstance(message, WriteDelayed):
            if reporter is not None:
                reporter.delay_write(write, outcome, now)
        elif reporter is None or not reporter.end_write(write, outcome, now):
            self._controller.end_write(write, outcome, now)


def _run_call(call: Call, controller: QueueController) -> None:
    if not call.result.set_running_or_notify_cancel():
        return
    try:
        call.result.set_result(call.function(controller))
    except Exception as error:  # noqa: BLE001 -- the calling thread gets it
        call.result.set_exception(error)
