"""Lead only while Kueue does not manage the queues: two controllers of one job would undo each other's writes.

The whole controller stands by, not only single queues. Kueue reconciles every job with a queue label, and no field of a
ClusterQueue prevents that.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from zonewise_common.kube.errors import KubeError
from zonewise_scheduler.controller.kueue.kueue_lease import GUARD_PERIOD, kueue_claim, read_lease, runs_without_lease

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.controller.kueue.kueue_lease import LeaseName

log = logging.getLogger(__name__)

_STOP_TIMEOUT = 0.3
"""Seconds that the thread may take to stop; one that waits for a silent API server is left behind."""


class KueueGuard:
    """Runs a thread that watches Kueue's Lease. It works while the context is entered."""

    def __init__(
        self,
        client: Client,
        lease: LeaseName | None,
        *,
        lead: Callable[[ExitStack], object],
        stand_by: Callable[[], object],
        publish: Callable[[str], object],
        period: float = GUARD_PERIOD,
    ) -> None:
        """Set the Lease of Kueue; None: do not look for Kueue.

        `lead` starts to lead or to compete for the lease, and registers its end on the stack. `stand_by` is called
        before the stack is closed. `publish` is called with the claim after each successful reading.
        """
        self._client = client
        self._lease = lease
        self._lead, self._stand_by, self._publish = lead, stand_by, publish
        self._period = period
        self._leading: ExitStack | None = None
        self.claim = "" if lease is None else f"Lease {lease} has not been read yet"
        """Why Kueue manages the queues; "": it does not."""
        self._is_known = lease is None
        self._is_readable = True
        """Whether the last reading succeeded. An outage of the API server is one line in the log."""
        self._stopping = threading.Event()
        self._changing = threading.Lock()
        """Held while the replica starts or stops to lead."""
        self._thread = threading.Thread(target=self._run, name="kueue", daemon=True)

    @property
    def kueue_manages(self) -> bool:
        """Return whether Kueue is known to manage the queues."""
        return self._is_known and bool(self.claim)

    def __enter__(self) -> Self:
        self.step()
        if self._lease is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        with self._changing:
            self._end()
        if self._lease is not None:
            self._thread.join(_STOP_TIMEOUT)

    def step(self) -> None:
        """Read the Lease, and start or stop leading."""
        claim = self._read()
        with self._changing:
            if self._stopping.is_set():
                return
            self._follow(claim)
        if self._is_known:
            self._publish(claim)

    def _follow(self, claim: str) -> None:
        """Start or stop leading as a claim requires."""
        if claim != self.claim:
            log.info("%s", claim or "Kueue does not manage the queues")
        self.claim = claim
        if claim:
            self._end()
        elif self._leading is None:
            self._leading = ExitStack()
            try:
                self._lead(self._leading)
            except Exception:  # the next step tries again
                self._end()
                raise

    def _run(self) -> None:
        while not self._stopping.wait(self._period):
            try:
                self.step()
            except Exception:  # a bug must not end the loop: otherwise a running Kueue would remain unnoticed
                log.exception("the check of Kueue's Lease failed")

    def _read(self) -> str:
        """Return the claim; while the Lease cannot be read, return the last claim, since the current one is unknown."""
        if self._lease is None:
            return ""
        try:
            lease = read_lease(self._client, self._lease)
            without_lease = lease is None and runs_without_lease(self._client, self._lease)
        except KubeError as error:
            log.log(
                logging.WARNING if self._is_readable else logging.DEBUG,
                "Lease %s cannot be read: %s", self._lease, error,
            )  # fmt: skip
            self._is_readable = False
            return self.claim if self._is_known else f"Lease {self._lease} cannot be read: {error}"
        self._is_known = self._is_readable = True
        return kueue_claim(self._lease, lease, without_lease=without_lease)

    def _end(self) -> None:
        leading, self._leading = self._leading, None
        if leading is not None:
            self._stand_by()
            leading.close()
