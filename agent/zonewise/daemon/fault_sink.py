"""Publishes the faults of each snapshot in its own thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.daemon.sinks import PublishingSink
from zonewise.publish.fault_publisher import FaultPublisher
from zonewise.publish.nrt_publisher import NO_WRITE, WriteResult

if TYPE_CHECKING:
    from zonewise.daemon.metrics import AgentMetrics
    from zonewise.daemon.settings import Settings
    from zonewise.daemon.status import Snapshot, Status
    from zonewise.publish.fault_publisher import FaultClient


def fault_sink(client: FaultClient, settings: Settings, status: Status, meters: AgentMetrics) -> PublishingSink:
    """Return the sink of conditions and events."""
    publisher = FaultPublisher(client, settings.node_name, taint=settings.health_taint)

    def publish(snapshot: Snapshot) -> WriteResult:
        writes = publisher.publish(snapshot.faults or ())
        return WriteResult("patch") if writes.total else NO_WRITE

    return PublishingSink("health", publish, lambda snapshot: snapshot.faults is not None, status, meters)
