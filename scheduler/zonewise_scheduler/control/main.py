"""The program around the extender: starts the parts, and runs until it is told to stop."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from zonewise.service import logs
from zonewise.service.access import Access
from zonewise.service.api import open_client
from zonewise.service.options import SettingsError
from zonewise.service.server import serving
from zonewise.service.tls import open_certificates
from zonewise_scheduler.control.cluster import Cluster, Trust
from zonewise_scheduler.control.extender.site import ExtenderSite
from zonewise_scheduler.control.extender.verbs import ExtenderVerbs
from zonewise_scheduler.control.meters import Meters
from zonewise_scheduler.control.misses import MissFiles
from zonewise_scheduler.control.pages import Pages
from zonewise_scheduler.control.waking import Waking
from zonewise_scheduler.control.watching import Watching
from zonewise_scheduler.fit.ledger.values import Waits

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from zonewise_scheduler.control.settings import Settings
    from zonewise_scheduler.fit.ledger.values import Miss

log = logging.getLogger(__name__)

_SWITCH = 0.0005
"""Seconds that one thread may hold the interpreter while another wants it. A call of kube-scheduler must not wait for
the 5 ms of the default whenever a burst of events is being read."""
_IDLE = 120.0
"""Seconds that a connection of kube-scheduler is kept: longer than it keeps one itself (90 s in Go's net/http), since
it does not repeat a POST on a connection that is closed just then."""


def run_scheduler(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT, and return the program's status. Raises SettingsError."""
    logs.set_up(settings.log_level, settings.log_format)
    sys.setswitchinterval(_SWITCH)
    stop = _stop_signal()
    with ExitStack() as stack:
        client = stack.enter_context(closing(open_client(settings.api_server, settings.kubeconfig)))
        meters = Meters()
        trust = Trust(settings.unreported_nodes, settings.stale_reports, settings.stale_after)
        cluster = Cluster(_clock(), Waits(promise=settings.promise_limit), trust, _missed(settings, meters))
        meters.watch(cluster)
        watching = stack.enter_context(Watching(client, cluster))
        stack.enter_context(Waking(client, cluster, meters))
        site = ExtenderSite(ExtenderVerbs(cluster, client, meters, watching), meters, bind=settings.bind)
        certificates = open_certificates(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
        stack.enter_context(serving(settings.listen, site, certificates=certificates, idle=_IDLE))
        if settings.metrics_listen:
            access = Access(client) if settings.metrics_auth == "token" else None
            certificates = open_certificates(settings.tls_cert, settings.tls_key, "")
            pages = Pages(cluster, meters.registry, watching)
            stack.enter_context(serving(settings.metrics_listen, pages, access=access, certificates=certificates))
        log.info("the extender starts")
        stop.wait()
        log.info("the extender stops")
    return 0


def _clock() -> Callable[[], float]:
    """Return a clock that tells the seconds since the epoch, as at the start, and never goes back."""
    start = time.time() - time.monotonic()
    return lambda: start + time.monotonic()


def _missed(settings: Settings, meters: Meters) -> Callable[[Miss], None]:
    """Return what is done with a pod that was foretold wrongly. Raises SettingsError."""
    try:
        files = MissFiles(settings.miss_dir, settings.miss_files) if settings.miss_dir else None
    except OSError as error:
        raise SettingsError(f"missDir: {settings.miss_dir}: {error.strerror}") from error

    def tell(miss: Miss) -> None:
        meters.missed(miss.reason)
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
