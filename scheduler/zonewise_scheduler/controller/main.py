"""The controller as a program: it connects the parts, and runs until SIGTERM or SIGINT."""

from __future__ import annotations

import gc
import logging
import time
from contextlib import ExitStack, closing
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING

from zonewise_common.service import logs
from zonewise_common.service.api_client import open_client
from zonewise_common.service.authorizer import Authorizer
from zonewise_common.service.clock import monotonic_clock
from zonewise_common.service.options import SettingsError, settings_digest
from zonewise_common.service.stop_signals import stop_event
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.backfill.recording.header import RecordingHeader
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.backfill.state.checkpoint import make_checkpoint
from zonewise_scheduler.controller.accounting.record_writer import RecordWriter
from zonewise_scheduler.controller.controller import ControllerOptions, QueueController
from zonewise_scheduler.controller.election import Election
from zonewise_scheduler.controller.informers import ObjectInformers
from zonewise_scheduler.controller.jobs.registry import adapters_of_settings
from zonewise_scheduler.controller.kueue.kueue_guard import KueueGuard
from zonewise_scheduler.controller.kueue.kueue_lease import parse_lease_name
from zonewise_scheduler.controller.kueue.managed_condition import ManagedConditions
from zonewise_scheduler.controller.loop import ControllerLoop, Leadership, WriteDelayed, WriteEnded
from zonewise_scheduler.controller.metrics import ControllerMetrics
from zonewise_scheduler.controller.planning.checkpoint_store import CheckpointFile, CheckpointStore
from zonewise_scheduler.controller.planning.configuration import ConfigurationObjects
from zonewise_scheduler.controller.planning.forecaster import (
    BasisCopier,
    ForecastBasis,
    Forecaster,
    NoBasis,
    SampledForecast,
    learning_pass,
)
from zonewise_scheduler.controller.planning.recorder import Recorder
from zonewise_scheduler.controller.status.reporter import StatusReporter
from zonewise_scheduler.controller.status_handler import ControllerStatusHandler
from zonewise_scheduler.controller.status_service import export_state, serve_status
from zonewise_scheduler.controller.watched_kinds import watched_kinds
from zonewise_scheduler.controller.webhooks.handler import WebhookHandler
from zonewise_scheduler.controller.webhooks.rules import AdmissionRules, pod_sets_reader, suspend_paths
from zonewise_scheduler.controller.webhooks.shared_port import SharedPortHandler
from zonewise_scheduler.controller.webhooks.webhook_server import WebhookOptions, WebhookServer
from zonewise_scheduler.controller.workloads.time_limits import ReadinessLimits
from zonewise_scheduler.controller.writing.event_writer import EventWriter
from zonewise_scheduler.controller.writing.group_status_writer import GroupStatusWriter
from zonewise_scheduler.controller.writing.writer import Writer
from zonewise_scheduler.quota.api.job_priority import DEFAULT_PRIORITY_CLASS
from zonewise_scheduler.tas.cluster_nodes import ClusterNodes

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.controller.settings import ControllerSettings
    from zonewise_scheduler.controller.types import Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

log = logging.getLogger(__name__)

_CALL_TIMEOUT = 5.0
"""Seconds in which the controller must respond, which exceeds the time of a long scheduling pass."""
_FINISH_TIMEOUT = 2.0
"""Seconds for which a stop waits for the current step and for pending writes."""
_WRITES_AHEAD = 1.0
"""Seconds of writing by which the planner's decisions may be ahead."""


def run_controller(settings: ControllerSettings) -> int:
    """Run until SIGTERM or SIGINT, and return the exit status. Raises SettingsError."""
    logs.configure_logging(settings.log_level, settings.log_format)
    try:
        return run_until_stopped(settings, stop_event(), monotonic_clock())
    finally:
        gc.freeze()  # the interpreter collects garbage before it exits, which takes seconds in a large cluster


def run_until_stopped(
    settings: ControllerSettings,
    stop: threading.Event,
    clock: Callable[[], float],
    *,
    observed: Client | None = None,
) -> int:
    """Run until `stop` is set, and return 0. Raises SettingsError.

    `clock` returns seconds since 1970 and never goes back. `observed`: a client of a cluster that is only displayed. In
    this case the replica never leads, so that it writes nothing, and it has neither webhooks nor forecasts.
    """
    with ExitStack() as stack:
        client = observed or stack.enter_context(closing(open_client(settings.api_server, settings.kubeconfig)))
        replica = _Replica(settings, client, clock, _recorder(settings, stack), may_lead=observed is None)
        serve_status(settings, client, replica.metrics.registry, replica.handler, stack)
        gc.disable()  # the loop enables it: before its first step there is no garbage, but much to scan
        stack.callback(gc.enable)
        stack.enter_context(replica.informers)
        if settings.webhook_listen:
            stack.enter_context(replica.webhooks())
        if not replica.informers.wait_synced(stop):
            return 0
        stack.enter_context(replica.events)
        stack.enter_context(replica.writer)
        stack.enter_context(replica.records)
        stack.enter_context(replica.groups)
        stack.enter_context(replica.loop)
        stack.enter_context(replica.forecaster())
        stack.enter_context(replica.guard)
        log.info("the controller starts")
        stop.wait()
        log.info("the controller stops")
    return 0


class _Replica:
    """The parts of one replica. The informers fill the inbox of the loop, and the writer takes its writes."""

    def __init__(
        self,
        settings: ControllerSettings,
        client: Client,
        clock: Callable[[], float],
        recorder: Recorder | None,
        *,
        may_lead: bool,
    ) -> None:
        self._settings, self._client, self._clock, self._may_lead = settings, client, clock, may_lead
        self._adapters = adapters_of_settings(settings.job_kinds)
        self._configuration = ConfigurationObjects()
        self._election = Election(settings)
        self.metrics = ControllerMetrics(time.perf_counter)
        self.metrics.settings.info({"hash": settings_digest(settings)})
        controller = self._controller(recorder)
        self._find_job, self._find_workload = controller.find_job, controller.find_workload
        self._manages = controller.manages
        self.writer = Writer(
            client,
            self._end_write,
            rate=settings.writes_per_second,
            burst=settings.write_burst,
            may_write=self._election.leads,
            count=self.metrics.count_attempt,
            report_delay=lambda write, outcome: self.loop.put(WriteDelayed(write, outcome)),
        )
        self.events = EventWriter(
            client, self.metrics.count_attempt, self.metrics.count_dropped_event, may_write=self._election.leads
        )
        self.records = RecordWriter(settings.accounting_directory, to_log=settings.accounting_log)
        self._reporter = StatusReporter(
            controller,
            self.writer.submit,
            self.events.submit,
            self.metrics,
            fair_sharing=settings.fair_sharing,
            record=self.records.submit,
        )
        self.loop = ControllerLoop(controller, self.writer.submit, clock, self._reporter, lambda: self.writer.delay)
        self.groups = GroupStatusWriter(client, self.metrics.count_attempt, may_write=self._acts)
        kinds = watched_kinds(self._adapters.values(), self.loop.put, self.groups, settings.avoid_conditions)
        self.informers = ObjectInformers(client, kinds.required, kinds.optional)
        export_state(self.metrics, self._reporter, self.loop, self.writer, self.informers)
        self.guard = KueueGuard(
            client,
            parse_lease_name(settings.kueue_lease),
            lead=self._lead,
            stand_by=self._stand_by,
            publish=ManagedConditions(client, time.time).publish,
        )
        self.metrics.export_kueue(lambda: self.guard.claim)
        self.handler = ControllerStatusHandler(
            self._reporter,
            self.metrics.registry,
            self.informers,
            self.loop.call,
            clock,
            kueue_claim=lambda: self.guard.claim,
            stale_after=settings.watch_stale_after,
        )

    def webhooks(self) -> WebhookServer:
        """Return the server of the webhooks, which also serves the read API."""
        settings, client = self._settings, self._client

        def has_default_queue(namespace: str) -> bool:
            return namespace in self._configuration.default_queues

        def has_default_class() -> bool:
            return DEFAULT_PRIORITY_CLASS in self._configuration.priority_classes.workload

        paths, pod_sets = suspend_paths(self._adapters), pod_sets_reader(self._adapters)
        rules = AdmissionRules(
            paths,
            has_default_queue,
            has_default_class,
            pod_sets,
            self._find_job,
            self._find_workload,
            self._manages,
            settings.manage_jobs_without_queue_name,
        )
        webhooks = WebhookHandler(rules, lambda: self.guard.kueue_manages)
        handler = SharedPortHandler(webhooks, self.handler, self._election.is_standby)
        options = WebhookOptions(settings.webhook_listen, settings.namespace, directory=settings.webhook_cert_dir)
        return WebhookServer(
            client, handler, options, is_leader=self._acts, clock=time.time, authorizer=Authorizer(client)
        )

    def forecaster(self) -> Forecaster:
        """Return the thread that samples forecasts. The controller's thread provides its inputs and takes samples."""
        copier = BasisCopier()

        def get_basis() -> ForecastBasis | NoBasis:
            def basis(controller: QueueController) -> ForecastBasis | NoBasis:
                history, now = self._reporter.history, self._clock()
                return copier.copy(controller.feed, history, now, leads=controller.leads)

            return self.loop.call(basis, _CALL_TIMEOUT)

        def publish(sampled: SampledForecast) -> None:
            self.loop.call(lambda _: self._reporter.publish_forecasts(sampled), _CALL_TIMEOUT)

        return Forecaster(get_basis, publish)

    def _controller(self, recorder: Recorder | None) -> QueueController:
        settings = self._settings
        feed = PlannerFeed(
            policy_named(settings.policy, settings.reserve_after),
            settings.quota_settings,
            ClusterNodes(),
            None if recorder is None else recorder.record,
        )
        return QueueController(
            feed,
            self._adapters,
            self._configuration,
            options=ControllerOptions(
                int(settings.writes_per_second * _WRITES_AHEAD),
                _readiness(settings),
                settings.finished_workload_retention,
                settings.managed_namespaces,
            ),
            run_pass=learning_pass(self.metrics.run_pass, lambda: self._reporter.history),
        )

    def _acts(self) -> bool:
        """Return whether this replica writes objects outside the queue. Beside Kueue each does, since none leads."""
        return self._may_lead and (self._election.leads() or self.guard.kueue_manages)

    def _end_write(self, write: Write, outcome: Outcome) -> None:
        self.loop.put(WriteEnded(write, outcome))

    def _lead(self, stack: ExitStack) -> None:
        """Lead, or compete for the lease, until the stack is closed. The checkpoint is restored first."""
        if not self._may_lead:
            return
        checkpoints = CheckpointStore(
            CheckpointFile(self._client, self._settings.namespace),
            get_checkpoint=lambda: self.loop.call(
                lambda controller: make_checkpoint(controller.feed.state), _CALL_TIMEOUT
            ),
            lead=lambda checkpoint, forecasts: self.loop.put(Leadership(True, checkpoint, forecasts)),
            get_forecasts=lambda: self.loop.call(lambda _: self._reporter.history.copy(), _CALL_TIMEOUT),
            may_write=self._election.holds_lease,
        )
        self._election.compete(checkpoints, self._stop_leading, stack)

    def _stand_by(self) -> None:
        """Stop deciding, and wait for pending writes. Another replica may lead after that."""
        try:
            self.loop.call(lambda controller: controller.lead(False), _FINISH_TIMEOUT)
        except TimeoutError as error:
            log.warning("the controller stops in the middle of a step: %s", error)
        if not self.writer.drain(_FINISH_TIMEOUT):
            log.warning("%d writes are not done: they are left to the next leader", self.writer.backlog)
        self._stop_leading()  # the controller has not responded
        self._election.stand_by()

    def _stop_leading(self) -> None:
        self.loop.put(Leadership(leads=False))


def _readiness(settings: ControllerSettings) -> ReadinessLimits:
    return ReadinessLimits(
        settings.pods_ready_timeout,
        settings.pods_recovery_timeout,
        None if settings.requeue_limit < 0 else settings.requeue_limit,
        settings.requeue_backoff,
        settings.requeue_backoff_max,
    )


def _recorder(settings: ControllerSettings, stack: ExitStack) -> Recorder | None:
    if not settings.recording:
        return None
    path = Path(settings.recording)
    try:
        _cut_torn_line(path)
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise SettingsError(f"recording: {settings.recording}: {error.strerror}") from error
    stack.enter_context(file)
    header = RecordingHeader(settings.policy, settings.reserve_after, settings.quota_settings, nodes=True)
    return Recorder(file, header.document())


def _cut_torn_line(path: Path) -> None:
    """Cut off what follows the last newline of a file, because a controller was killed while it wrote that line."""
    if not path.is_file() or not path.stat().st_size:
        return
    with path.open("r+b") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        end = content.rfind(b"\n") + 1
        if end < len(content):
            file.truncate(end)
