"""The program around the extender: starts the parts, and runs until it is told to stop."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from zonewise_common.service import logs
from zonewise_common.service.api_client import open_client
from zonewise_common.service.authorizer import Authorizer
from zonewise_common.service.http_server import serving
from zonewise_common.service.options import SettingsError
from zonewise_common.service.tls import open_certificates
from zonewise_scheduler.extender.cache import ExtenderCache, FallbackPolicy
from zonewise_scheduler.extender.handler import ExtenderHandler
from zonewise_scheduler.extender.informers import Informers
from zonewise_scheduler.extender.metrics import ExtenderMetrics
from zonewise_scheduler.extender.misprediction_files import MispredictionFiles
from zonewise_scheduler.extender.requeue import Requeuer
from zonewise_scheduler.extender.status_handler import StatusHandler
from zonewise_scheduler.extender.verbs import ExtenderVerbs
from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from zonewise_scheduler.extender.settings import ExtenderSettings
    from zonewise_scheduler.nodes.assumed.types import Misprediction

log = logging.getLogger(__name__)

_SWITCH = 0.0005
"""Seconds that one thread may hold the interpreter while another wants it. A call of kube-scheduler must not wait for
the 5 ms of the default whenever a burst of events is being read."""
_IDLE = 120.0
"""Seconds that a connection of kube-scheduler is kept: longer than it keeps one itself (90 s in Go's net/http), since
it does not repeat a POST on a connection that is closed just then."""


def run_scheduler(settings: ExtenderSettings) -> int:
    """Run until SIGTERM or SIGINT, and return the program's status. Raises SettingsError."""
    logs.configure_logging(settings.log_level, settings.log_format)
    sys.setswitchinterval(_SWITCH)
    stop = _stop_signal()
    with ExitStack() as stack:
        client = stack.enter_context(closing(open_client(settings.api_server, settings.kubeconfig)))
        meters = ExtenderMetrics()
        trust = FallbackPolicy(settings.unreported_nodes, settings.stale_reports, settings.stale_after)
        cluster = ExtenderCache(
            _clock(), LedgerTimeouts(assume_timeout=settings.promise_limit), trust, _missed(settings, meters)
        )
        meters.export(cluster)
        watching = stack.enter_context(Informers(client, cluster))
        stack.enter_context(Requeuer(client, cluster, meters))
        site = ExtenderHandler(ExtenderVerbs(cluster, client, meters, watching), meters, bind=settings.bind)
        certificates = open_certificates(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
        stack.enter_context(serving(settings.listen, site, certificates=certificates, idle=_IDLE))
        if settings.metrics_listen:
            authorizer = Authorizer(client) if settings.metrics_auth == "token" else None
            certificates = open_certificates(settings.tls_cert, settings.tls_key, "")
            pages = StatusHandler(cluster, meters.registry, watching)
            stack.enter_context(
                serving(settings.metrics_listen, pages, authorizer=authorizer, certificates=certificates)
            )
        log.info("the extender starts")
        stop.wait()
        log.info("the extender stops")
    return 0


def _clock() -> Callable[[], float]:
    """Return a clock that tells the seconds since the epoch, as at the start, and never goes back."""
    start = time.time() - time.monotonic()
    return lambda: start + time.monotonic()


def _missed(settings: ExtenderSettings, meters: ExtenderMetrics) -> Callable[[Misprediction], None]:
    """Return what is done with a pod that was foretold wrongly. Raises SettingsError."""
    try:
        files = MispredictionFiles(settings.miss_dir, settings.miss_files) if settings.miss_dir else None
    except OSError as error:
        raise SettingsError(f"missDir: {settings.miss_dir}: {error.strerror}") from error

    def tell(miss: Misprediction) -> None:
        meters.count_misprediction(miss.reason)
        log.warning("pod=%s/%s node=%s reason=%s was foretold to fit: %s", miss.namespace, miss.name, miss.node,
                    miss.reason, miss.message)  # fmt: skip
        if files is not None:
            files.write(miss)

    return tell


def _stop_signal() -> threading.Event:
    stop = threading.Event()

    def tell(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, tell)
    return stop
