"""A node's hardware fault as its agent publishes it to an API server."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from support.health_stories import Story, xid
from zonewise.publish.fault_publisher import FaultPublisher
from zonewise_common.kube.client import Client

if TYPE_CHECKING:
    from collections.abc import Generator

    from zonewise_common.kube.config import Config

FAULT_REASON = "GPUHardwareFault XID79"
"""Type and reason of the condition."""


@contextlib.contextmanager
def published_fault(config: Config, node: str, *, taint: bool = False) -> Generator[None]:
    """Publish a GPU that fell off the bus of a node; after the block, publish its replacement."""
    story = Story()
    story.observe(events=xid(79, story.now + 1))
    with contextlib.closing(Client(config)) as client:
        publisher = FaultPublisher(client, node, taint=taint)
        publisher.publish(story.state.active)
        yield
        publisher.publish(())
