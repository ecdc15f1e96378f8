"""The extender's main program: starts its parts and runs until SIGTERM or SIGINT."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from zonewise_common.service import logs
from zonewise_common.service.api_client import open_client
from zonewise_common.service.authorizer import Authorizer
from zonewise_common.service.clock import monotonic_clock
from zonewise_common.service.http_server import serving
from zonewise_common.service.metrics import ServiceMetrics
from zonewise_common.service.options import SettingsError, settings_digest
from zonewise_common.service.stop_signals import stop_event
from zonewise_common.service.tls import open_certificates
from zonewise_scheduler.extender.binder import Binder
from zonewise_scheduler.extender.cache import ExtenderCache
from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
from zonewise_scheduler.extender.handler import ExtenderHandler
from zonewise_scheduler.extender.informers import Informers
from zonewise_scheduler.extender.metrics import ExtenderMetrics
from zonewise_scheduler.extender.misprediction_files import MispredictionFiles
from zonewise_scheduler.extender.pass_loop import PassLoop
from zonewise_scheduler.extender.pod_group_informers import PodGroupInformers
from zonewise_scheduler.extender.preemption.preemption import Preemption
from zonewise_scheduler.extender.requeue import Requeuer
from zonewise_scheduler.extender.state.report_problems import ReportProblems
from zonewise_scheduler.extender.status_handler import StatusHandler
from zonewise_scheduler.extender.verbs import ExtenderVerbs
from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from zonewise_scheduler.extender.settings import ExtenderSettings
    from zonewise_scheduler.nodes.assumed.types import Misprediction

log = logging.getLogger(__name__)

_SWITCH_INTERVAL = 0.0005
"""Seconds for which one thread may hold the interpreter while another waits. With the default of 5 ms, a call from
kube-scheduler would wait while a burst of events is read."""
_IDLE_TIMEOUT = 120.0
"""Seconds for which an idle connection of kube-scheduler remains open. Go's net/http closes it after 90 s. It does not
repeat a POST if the server closes the connection first."""


def run_extender(settings: ExtenderSettings) -> int:
    """Run until SIGTERM or SIGINT, and return the program's exit status. Raises SettingsError."""
    logs.configure_logging(settings.log_level, settings.log_format)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    return run_until_stopped(settings, stop_event(), monotonic_clock())


def run_until_stopped(settings: ExtenderSettings, stop: threading.Event, clock: Callable[[], float]) -> int:
    """Run until `stop` is set, and return 0. Raises SettingsError.

    `clock` returns seconds since the epoch and never goes back.
    """
    with ExitStack() as stack:
        client = stack.enter_context(closing(open_client(settings.api_server, settings.kubeconfig)))
        metrics = ExtenderMetrics()
        metrics.settings.info({"hash": settings_digest(settings)})
        fallback = FallbackPolicy(settings.unreported_nodes, settings.stale_reports, settings.stale_after,
                                  settings.watch_stale_after)  # fmt: skip
        timeouts = LedgerTimeouts(assume_timeout=settings.assume_timeout)
        cache = ExtenderCache(
            clock, timeouts, fallback, _misprediction_callback(settings, metrics),
            direct_binding=settings.direct_binding,
        )  # fmt: skip
        problems = ReportProblems(client)
        stack.enter_context(problems)
        informers = stack.enter_context(
            Informers(client, cache, settings.watch_stale_after, problems.update_report, settings.avoid_conditions)
        )
        metrics.export(cache.view)
        metrics.export_report_problems(problems)
        metrics.export_watch_ages(lambda: informers.ages)
        stack.enter_context(PodGroupInformers(client, cache))
        stack.enter_context(Requeuer(client, cache, metrics))
        if settings.direct_binding:
            binder = stack.enter_context(Binder(client, cache, metrics, assume_timeout=settings.assume_timeout))
            stack.enter_context(PassLoop(cache, binder, informers))
        preemption: Preemption | None = None
        if settings.preemption:
            preemption = stack.enter_context(Preemption(client, cache.state, fallback, clock, metrics))
        verbs = ExtenderVerbs(cache, client, metrics, informers, preemption)
        handler = ExtenderHandler(verbs, metrics, bind=settings.bind)
        certificates = open_certificates(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
        service = ServiceMetrics(client.request_failures)
        service.add_certificates(certificates)
        metrics.registry.register(service)
        stack.enter_context(serving(settings.listen, handler, certificates=certificates, idle=_IDLE_TIMEOUT))
        if settings.metrics_listen:
            authorizer = Authorizer(client) if settings.metrics_auth == "token" else None
            certificates = open_certificates(*_metrics_tls(settings), "")
            service.add_certificates(certificates)
            service.add_authorizer(authorizer)
            status = StatusHandler(cache.view, metrics.registry, informers)
            stack.enter_context(
                serving(settings.metrics_listen, status, authorizer=authorizer, certificates=certificates)
            )
        log.info("the extender starts")
        stop.wait()
        log.info("the extender stops")
    return 0


def _metrics_tls(settings: ExtenderSettings) -> tuple[str, str]:
    """Return the paths of the certificate and key files for metrics and health."""
    if settings.metrics_tls_cert:
        return settings.metrics_tls_cert, settings.metrics_tls_key
    return settings.tls_cert, settings.tls_key


def _misprediction_callback(settings: ExtenderSettings, metrics: ExtenderMetrics) -> Callable[[Misprediction], None]:
    """Return a callback that counts, logs and stores a misprediction. Raises SettingsError."""
    directory = settings.misprediction_dir
    try:
        files = MispredictionFiles(directory, settings.misprediction_files) if directory else None
    except OSError as error:
        raise SettingsError(f"mispredictionDir: {directory}: {error.strerror}") from error

    def report(misprediction: Misprediction) -> None:
        metrics.count_misprediction(misprediction.reason)
        log.warning("pod=%s/%s node=%s reason=%s mispredicted as admitted: %s", misprediction.namespace,
                    misprediction.name, misprediction.node, misprediction.reason, misprediction.message)  # fmt: skip
        if files is not None:
            files.write(misprediction)

    return report
