"""The controller as a program: starts its parts, and runs until SIGTERM or SIGINT."""

from __future__ import annotations

import gc
import logging
import socket
import time
import uuid
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zonewise_common.kube.leaderelection import LeaderElector
from zonewise_common.kube.resources import JOBS, NODE_RESOURCE_TOPOLOGIES, NODES, PODS, WORKLOADS
from zonewise_common.service import logs
from zonewise_common.service.api_client import open_client
from zonewise_common.service.authorizer import Authorizer
from zonewise_common.service.clock import monotonic_clock
from zonewise_common.service.options import SettingsError, settings_digest
from zonewise_common.service.stop_signals import stop_event
from zonewise_scheduler.backfill.checkpoint import make_checkpoint
from zonewise_scheduler.backfill.planner_feed import PlannerFeed
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.backfill.recording import RecordingHeader
from zonewise_scheduler.controller.admissionchecks.provisioning_reconciler import WATCHED as PROVISIONING_KINDS
from zonewise_scheduler.controller.controller import ControllerOptions, QueueController
from zonewise_scheduler.controller.informers import ObjectInformers, WatchedKind, watched_objects
from zonewise_scheduler.controller.jobs.registry import adapters_of_settings
from zonewise_scheduler.controller.kueue.kueue_guard import KueueGuard
from zonewise_scheduler.controller.kueue.kueue_lease import parse_lease_name
from zonewise_scheduler.controller.kueue.managed_condition import ManagedConditions
from zonewise_scheduler.controller.loop import (
    ControllerLoop,
    Leadership,
    Listing,
    NodeObservation,
    Observation,
    PodObservation,
    ReportObservation,
    WriteEnded,
)
from zonewise_scheduler.controller.metrics import ControllerMetrics
from zonewise_scheduler.controller.nodes.observed_objects import decode_node, decode_report
from zonewise_scheduler.controller.observed_pod import decode_observed_pod
from zonewise_scheduler.controller.planning.checkpoint_store import CheckpointFile, CheckpointStore
from zonewise_scheduler.controller.planning.configuration import OPTIONAL_RESOURCES, RESOURCES, ConfigurationObjects
from zonewise_scheduler.controller.planning.forecaster import (
    BasisCopier,
    ForecastBasis,
    Forecaster,
    NoBasis,
    SampledForecast,
    learning_pass,
)
from zonewise_scheduler.controller.planning.recorder import Recorder
from zonewise_scheduler.controller.pods.group_owner import GROUP_RESOURCES
from zonewise_scheduler.controller.status.reporter import StatusReporter
from zonewise_scheduler.controller.status_handler import ControllerStatusHandler
from zonewise_scheduler.controller.status_service import export_state, serve_status
from zonewise_scheduler.controller.webhooks.handler import WebhookHandler
from zonewise_scheduler.controller.webhooks.rules import AdmissionRules, suspend_paths
from zonewise_scheduler.controller.webhooks.shared_port import SharedPortHandler
from zonewise_scheduler.controller.webhooks.webhook_server import WebhookOptions, WebhookServer
from zonewise_scheduler.controller.workloads.time_limits import ReadinessLimits
from zonewise_scheduler.controller.writing.event_writer import EventWriter
from zonewise_scheduler.controller.writing.writer import Writer
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.tas.cluster_nodes import ClusterNodes

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource
    from zonewise_common.service.handlers import Handler
    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.nodes.types import TrackedNode, TrackedReport
    from zonewise_scheduler.controller.observed_pod import WatchedPod
    from zonewise_scheduler.controller.settings import ControllerSettings
    from zonewise_scheduler.controller.types import Json, ObjectKey, Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

log = logging.getLogger(__name__)

LEASE = "zonewise-controller"
_LEASE_TIMEOUT = 4.0
"""Seconds for a request of the election: a renewal that hangs ends before another replica may lead."""
_ANSWER_TIMEOUT = 5.0
"""Seconds in which the controller has to answer: longer than a long scheduling pass."""
_FINISH_TIMEOUT = 2.0
"""Seconds that a stop waits for a step, and for the writes that are on their way."""
_WRITES_AHEAD = 1.0
"""Seconds of writing that the planner may decide ahead."""


def run_controller(settings: ControllerSettings) -> int:
    """Run until SIGTERM or SIGINT, and return the program's status. Raises SettingsError."""
    logs.configure_logging(settings.log_level, settings.log_format)
    return run_until_stopped(settings, stop_event(), monotonic_clock())


def run_until_stopped(
    settings: ControllerSettings,
    stop: threading.Event,
    clock: Callable[[], float],
    *,
    observed: Client | None = None,
) -> int:
    """Run until `stop` is set, and return 0. Raises SettingsError.

    `clock` returns seconds since 1970 and never goes back. `observed`: a client of a cluster that is only shown. This
    replica then never leads, so that it writes nothing, and has neither webhooks nor forecasts.
    """
    with ExitStack() as stack:
        client = observed or stack.enter_context(closing(open_client(settings.api_server, settings.kubeconfig)))
        recorder = _recorder(settings, stack)
        feed = PlannerFeed(
            policy_named(settings.policy, settings.reserve_after),
            DEFAULT_SETTINGS._replace(fair_sharing=settings.fair_sharing),
            ClusterNodes(),
            None if recorder is None else recorder.record,
        )
        adapters, configuration = adapters_of_settings(settings.job_kinds), ConfigurationObjects()
        metrics = ControllerMetrics(time.perf_counter)
        metrics.settings.info({"hash": settings_digest(settings)})
        controller = QueueController(
            feed,
            adapters,
            configuration,
            options=ControllerOptions(int(settings.writes_per_second * _WRITES_AHEAD), _readiness(settings)),
            run_pass=learning_pass(metrics.run_pass, lambda: reporter.history),
        )

        election = _Election(is_held=settings.leader_election)

        def report(write: Write, outcome: Outcome) -> None:
            loop.put(WriteEnded(write, outcome))

        writer = Writer(
            client,
            report,
            rate=settings.writes_per_second,
            burst=settings.write_burst,
            may_write=election.leads,
            count=metrics.count_attempt,
        )
        events = EventWriter(client, metrics.count_attempt, metrics.count_dropped_event, may_write=election.leads)
        reporter = StatusReporter(
            controller, writer.submit, events.submit, metrics, time.perf_counter, fair_sharing=settings.fair_sharing
        )
        loop = ControllerLoop(controller, writer.submit, clock, reporter, lambda: writer.delay)
        informers = ObjectInformers(client, *_watched_kinds(adapters, loop, settings.avoid_conditions))
        export_state(metrics, reporter, loop, writer, informers)

        def lead(leading: ExitStack) -> None:
            if observed is not None:
                return
            election.competes = True
            election.elector = _lead(settings, client, loop, reporter, leading)

        def stand_by() -> None:
            _finish_writes(loop, writer)
            loop.put(Leadership(leads=False))  # a controller that has not answered
            election.competes, election.elector = False, None

        guard = KueueGuard(
            client,
            parse_lease_name(settings.kueue_lease),
            lead=lead,
            stand_by=stand_by,
            publish=ManagedConditions(client, time.time).publish,
        )
        metrics.export_kueue(lambda: guard.claim)
        handler = ControllerStatusHandler(
            reporter,
            metrics.registry,
            informers,
            loop.call,
            clock,
            kueue_claim=lambda: guard.claim,
            stale_after=settings.watch_stale_after,
        )
        serve_status(settings, client, metrics.registry, handler, stack)
        gc.disable()  # the loop enables it: until its first step there is no garbage, and each collection searches all
        stack.callback(gc.enable)
        stack.enter_context(informers)
        if settings.webhook_listen:
            stack.enter_context(_webhooks(settings, client, adapters, configuration, election, guard, handler))
        if not informers.wait_synced(stop):
            return 0
        stack.enter_context(events)
        stack.enter_context(writer)
        stack.enter_context(loop)
        stack.enter_context(_forecaster(loop, reporter, clock))
        stack.enter_context(guard)
        log.info("the controller starts")
        stop.wait()
        log.info("the controller stops")
    return 0


def _finish_writes(loop: ControllerLoop, writer: Writer) -> None:
    """Decide nothing more, and wait for the writes that are on their way. Then the lease may go to another replica."""
    try:
        loop.call(lambda controller: controller.lead(False), _FINISH_TIMEOUT)
    except TimeoutError as error:
        log.warning("it stops in the middle of a step: %s", error)
    if not writer.drain(_FINISH_TIMEOUT):
        log.warning("%d writes are not done: they are left to the next leader", writer.backlog)


def _forecaster(loop: ControllerLoop, reporter: StatusReporter, clock: Callable[[], float]) -> Forecaster:
    copier = BasisCopier()

    def basis(controller: QueueController) -> ForecastBasis | NoBasis:
        return copier.copy(controller.feed, reporter.history, clock(), leads=controller.leads)

    def publish(sampled: SampledForecast) -> None:
        loop.call(lambda _: reporter.publish_forecasts(*sampled), _ANSWER_TIMEOUT)

    return Forecaster(lambda: loop.call(basis, _ANSWER_TIMEOUT), publish)


def _readiness(settings: ControllerSettings) -> ReadinessLimits:
    return ReadinessLimits(
        settings.pods_ready_timeout,
        settings.pods_recovery_timeout,
        None if settings.requeue_limit < 0 else settings.requeue_limit,
        settings.requeue_backoff,
        settings.requeue_backoff_max,
    )


def _webhooks(
    settings: ControllerSettings,
    client: Client,
    adapters: Mapping[tuple[str, str], JobAdapter],
    configuration: ConfigurationObjects,
    election: _Election,
    guard: KueueGuard,
    read_api: Handler,
) -> WebhookServer:
    def has_default_queue(namespace: str) -> bool:
        return namespace in configuration.default_queues

    rules = AdmissionRules(suspend_paths(adapters), has_default_queue, settings.manage_jobs_without_queue_name)
    options = WebhookOptions(settings.webhook_listen, settings.namespace, directory=settings.webhook_cert_dir)
    handler = SharedPortHandler(WebhookHandler(rules, lambda: guard.kueue_manages), read_api, election.stands_by)

    def keeps_trust() -> bool:
        """Tell whether this replica writes the CAs: each does beside Kueue, since none leads then."""
        return election.leads() or guard.kueue_manages

    authorizer = Authorizer(client)
    return WebhookServer(client, handler, options, is_leader=keeps_trust, clock=time.time, authorizer=authorizer)


def _watched_kinds(
    adapters: Mapping[tuple[str, str], JobAdapter], loop: ControllerLoop, avoided: tuple[str, ...]
) -> tuple[list[WatchedKind], list[WatchedKind]]:
    """Return the kinds that every cluster has, and those that one need not have.

    `avoided`: types of conditions that keep gangs off a node.
    """

    def put_object(key: ObjectKey, obj: Json | None) -> None:
        loop.put(Observation(key, obj))

    def put_node(old: TrackedNode | None, new: TrackedNode | None) -> None:
        if (node := new or old) is not None:
            loop.put(NodeObservation(node.name, new))

    def put_report(old: TrackedReport | None, new: TrackedReport | None) -> None:
        if (report := new or old) is not None:
            loop.put(ReportObservation(report.node, new))

    def put_pod(old: WatchedPod | None, new: WatchedPod | None) -> None:
        if (pod := new or old) is not None:
            loop.put(PodObservation(pod.tracked.namespace, pod.tracked.name, new))

    def put_listing(resource: Resource, version: int) -> None:
        loop.put(Listing(resource, version))

    required = [watched_objects(resource, put_object, put_listing) for resource in (*RESOURCES, WORKLOADS, JOBS)]
    nodes = WatchedKind(NODES, partial(decode_node, avoided=avoided), put_node)
    required += [nodes, WatchedKind(PODS, decode_observed_pod, put_pod)]
    kinds = (adapter.resource for adapter in adapters.values() if adapter.resource != JOBS)
    optional = [
        watched_objects(resource, put_object, put_listing)
        for resource in (*kinds, *GROUP_RESOURCES, *OPTIONAL_RESOURCES, *PROVISIONING_KINDS)
    ]
    optional.append(WatchedKind(NODE_RESOURCE_TOPOLOGIES, decode_report, put_report))
    return required, optional


class _Election:
    """Whether this replica leads; without an election it does as long as it competes."""

    def __init__(self, *, is_held: bool) -> None:
        self._is_held = is_held
        self.competes = False
        """Whether Kueue leaves the queues to this program."""
        self.elector: LeaderElector | None = None
        """None: none is held, or it has not begun."""

    def leads(self) -> bool:
        return self.competes and (self.elector.is_leader if self.elector is not None else not self._is_held)

    def stands_by(self) -> bool:
        """Tell whether another replica leads, or none does yet."""
        return self.competes and not self.leads()


def _lead(
    settings: ControllerSettings, client: Client, loop: ControllerLoop, reporter: StatusReporter, stack: ExitStack
) -> LeaderElector | None:
    """Lead at once, or compete for the lease until the stack is closed. Before it leads, restore the checkpoint.

    The last checkpoint is written before the lease is released: the stack is closed in reverse order.
    """
    checkpoints = CheckpointStore(
        CheckpointFile(client, settings.namespace),
        ask=lambda: loop.call(lambda controller: make_checkpoint(controller.feed.state), _ANSWER_TIMEOUT),
        lead=lambda checkpoint, forecasts: loop.put(Leadership(True, checkpoint, forecasts)),
        ask_forecasts=lambda: loop.call(lambda _: reporter.history.copy(), _ANSWER_TIMEOUT),
    )
    if not settings.leader_election:
        checkpoints.start_leading()
        stack.enter_context(checkpoints)
        return None

    def stop_leading() -> None:
        checkpoints.stop_leading()
        loop.put(Leadership(leads=False))

    elector = LeaderElector(
        stack.enter_context(closing(open_client(settings.api_server, settings.kubeconfig, timeout=_LEASE_TIMEOUT))),
        namespace=settings.namespace,
        name=LEASE,
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        on_started_leading=checkpoints.start_leading,
        on_stopped_leading=stop_leading,
    )
    elector.start()
    stack.callback(elector.close)
    stack.enter_context(checkpoints)
    return elector


def _recorder(settings: ControllerSettings, stack: ExitStack) -> Recorder | None:
    if not settings.recording:
        return None
    try:
        file = Path(settings.recording).open("ab", buffering=0)  # noqa: SIM115 -- the stack closes it
    except OSError as error:
        raise SettingsError(f"recording: {settings.recording}: {error.strerror}") from error
    stack.enter_context(file)
    header = RecordingHeader(settings.policy, settings.reserve_after, settings.fair_sharing, nodes=True)
    return Recorder(file, header.document())
