"""Serve health, metrics and the read API of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.service.authorizer import Authorizer
from zonewise_common.service.http_server import serving
from zonewise_common.service.metrics import ServiceMetrics, WatchAges
from zonewise_common.service.tls import open_certificates

if TYPE_CHECKING:
    from contextlib import ExitStack

    from prometheus_client import CollectorRegistry

    from zonewise_common.kube.client import Client
    from zonewise_common.service.handlers import Handler
    from zonewise_scheduler.controller.informers import ObjectInformers
    from zonewise_scheduler.controller.loop import ControllerLoop
    from zonewise_scheduler.controller.metrics import ControllerMetrics
    from zonewise_scheduler.controller.settings import ControllerSettings
    from zonewise_scheduler.controller.status.reporter import StatusReporter
    from zonewise_scheduler.controller.writing.writer import Writer


def export_state(
    metrics: ControllerMetrics,
    reporter: StatusReporter,
    loop: ControllerLoop,
    writer: Writer,
    informers: ObjectInformers,
) -> None:
    """Export the state of the parts at each scrape."""
    metrics.export(lambda: reporter.snapshot)
    metrics.export_backlogs(inbox=lambda: loop.inbox_length, writes=lambda: writer.backlog)
    metrics.registry.register(WatchAges(lambda: informers.ages))


def serve_status(
    settings: ControllerSettings, client: Client, registry: CollectorRegistry, handler: Handler, stack: ExitStack
) -> None:
    """Serve until the stack is closed, if the settings specify an address. Raises SettingsError."""
    service = ServiceMetrics(client.request_failures)
    registry.register(service)
    if not settings.metrics_listen:
        return
    certificates = open_certificates(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
    authorizer = Authorizer(client) if settings.metrics_auth == "token" else None
    service.add_certificates(certificates)
    service.add_authorizer(authorizer)
    stack.enter_context(serving(settings.metrics_listen, handler, authorizer=authorizer, certificates=certificates))
