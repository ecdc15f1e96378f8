"""Whether this replica of the controller leads, and the lease for which it competes."""

from __future__ import annotations

import socket
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

from zonewise_common.kube.leaderelection import LeaderElector
from zonewise_common.service.api_client import open_client

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from zonewise_scheduler.controller.planning.checkpoint_store import CheckpointStore
    from zonewise_scheduler.controller.settings import ControllerSettings

LEASE = "zonewise-controller"
_LEASE_TIMEOUT = 4.0
"""Timeout in seconds for a request of the election. A renewal that hangs ends before another replica may lead."""


class Election:
    """The leader election. If it is disabled, the replica leads as long as it competes."""

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self._competes = False
        self._elector: LeaderElector | None = None
        """None: leader election is disabled, or has not started."""

    def leads(self) -> bool:
        """Return whether this replica leads."""
        if self._elector is None:
            return self._competes and not self._settings.leader_election
        return self._competes and self._elector.is_leader

    def holds_lease(self) -> bool:
        """Return whether this replica holds the lease, also while it stops. A pause may have lost it."""
        return not self._settings.leader_election or (self._elector is not None and self._elector.is_leader)

    def is_standby(self) -> bool:
        """Return whether this replica competes and does not lead."""
        return self._competes and not self.leads()

    def compete(self, checkpoints: CheckpointStore, lost: Callable[[], object], stack: ExitStack) -> None:
        """Lead at once, or compete for the lease, until the stack is closed. `lost` is called when the lease is lost.

        The stack is closed in reverse order, so the last checkpoint is written before the lease is released.
        """
        self._competes = True
        if self._settings.leader_election:
            self._elector = self._start_elector(checkpoints, lost, stack)
        else:
            checkpoints.start_leading()
        stack.enter_context(checkpoints)

    def stand_by(self) -> None:
        """Stop leading. The stack that `compete` received is closed afterwards."""
        self._competes = False

    def _start_elector(
        self, checkpoints: CheckpointStore, lost: Callable[[], object], stack: ExitStack
    ) -> LeaderElector:
        settings = self._settings

        def stop_leading() -> None:
            checkpoints.stop_leading()
            lost()

        client = open_client(settings.api_server, settings.kubeconfig, timeout=_LEASE_TIMEOUT)
        elector = LeaderElector(
            stack.enter_context(closing(client)),
            namespace=settings.namespace,
            name=LEASE,
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            on_started_leading=checkpoints.start_leading,
            on_stopped_leading=stop_leading,
        )
        elector.start()
        stack.callback(elector.close)
        return elector
