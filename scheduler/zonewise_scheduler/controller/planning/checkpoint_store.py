"""Keeps the checkpoint in the API server while this replica leads, and restores it when it begins to lead.

    event                      what happens
    the lease is acquired      the checkpoint is read; then the controller leads, with the checkpoint
    every PERIOD               the checkpoint is written, if it has changed
    the lease is lost          the controller does not lead; nothing is written any more
    the program stops          the checkpoint is written once more; then the lease is released

Each write names the version that was read or written last. So of two replicas that both believe to lead, the later
write fails. A replica that still holds the lease then reads the new version, and writes again after a period.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from zonewise_common.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from zonewise_common.kube.resources import CONFIG_MAPS
from zonewise_scheduler.controller.planning.checkpoint_object import (
    NAME,
    InvalidCheckpoint,
    encode_checkpoint,
    read_config_map,
    write_config_map,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.backfill.checkpoint import Checkpoint

log = logging.getLogger(__name__)

PERIOD = 30.0
"""Seconds between two writes. Reservations that are younger are lost by a crash, and made anew."""
READ_ATTEMPTS = 5
"""After so many failures to read the checkpoint, the controller leads without it."""
_RETRY_PAUSE = 1.0
_STOP_TIMEOUT = 3.0


class CheckpointFile:
    """The ConfigMap, with the version that was read or written last."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._version: str | None = None
        """None: there is no ConfigMap."""
        self._data = b""
        """What was written last."""

    def read(self) -> Checkpoint | None:
        """Return the checkpoint; None where there is none that can be read. Raises KubeError."""
        self._data = b""
        try:
            config_map = self._client.get(CONFIG_MAPS, NAME, namespace=self._namespace)
        except NotFound:
            self._version = None
            return None
        self._version = config_map["metadata"]["resourceVersion"]
        try:
            return read_config_map(config_map)
        except InvalidCheckpoint as error:
            log.error("ConfigMap %s/%s is ignored: %s", self._namespace, NAME, error)  # noqa: TRY400 -- no defect
            return None

    def write(self, checkpoint: Checkpoint) -> bool:
        """Write a checkpoint unless it is the last one; return whether it was written.

        Raises KubeError: Conflict or AlreadyExists where another replica has written, NotFound where the ConfigMap was
        deleted. Raises InvalidCheckpoint.
        """
        encoded = encode_checkpoint(checkpoint)
        if encoded.data == self._data:
            return False
        if encoded.reservations < encoded.all_reservations:
            log.warning("the checkpoint has the earliest %d of %d reservations: more would not fit into a ConfigMap",
                        encoded.reservations, encoded.all_reservations)  # fmt: skip
        config_map = write_config_map(self._namespace, encoded)
        if self._version is None:
            written = self._client.create(CONFIG_MAPS, config_map)
        else:
            config_map["metadata"]["resourceVersion"] = self._version
            written = self._client.replace(CONFIG_MAPS, config_map)
        self._version, self._data = written["metadata"]["resourceVersion"], encoded.data
        return True


class CheckpointStore:
    """See the module. Works while the context is entered."""

    def __init__(
        self,
        file: CheckpointFile,
        *,
        ask: Callable[[], Checkpoint],
        lead: Callable[[Checkpoint | None], object],
        period: float = PERIOD,
        retry_pause: float = _RETRY_PAUSE,
    ) -> None:
        """`ask` returns the controller's checkpoint, or raises TimeoutError; `lead` makes the controller lead."""
        self._file = file
        self._ask = ask
        self._lead = lead
        self._period = period
        self._retry_pause = retry_pause
        self._condition = threading.Condition()
        self._term = 0
        """Counts the times at which leading began or ended; odd: this replica leads."""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        self._thread.join(_STOP_TIMEOUT)

    def start_leading(self) -> None:
        """Read the checkpoint, and make the controller lead. Returns at once."""
        self._set_leading(leads=True)

    def stop_leading(self) -> None:
        """Write no more."""
        self._set_leading(leads=False)

    def _set_leading(self, *, leads: bool) -> None:
        with self._condition:
            if (self._term % 2 == 1) != leads:
                self._term += 1
                self._condition.notify_all()

    def _run(self) -> None:
        restored = 0
        while not self._stopping:
            term = self._term
            if term % 2 == 0:
                self._wait(term, None)
            elif restored != term:
                self._restore(term)
                restored = term
            else:
                self._wait(term, self._period)
                if self._term == term:
                    self._save()

    def _wait(self, term: int, seconds: float | None) -> None:
        """Wait until leading begins or ends, the program stops, or so long."""
        with self._condition:
            self._condition.wait_for(lambda: self._stopping or self._term != term, seconds)

    def _restore(self, term: int) -> None:
        checkpoint: Checkpoint | None = None
        for attempt in range(1, READ_ATTEMPTS + 1):
            try:
                checkpoint = self._file.read()
                break
            except KubeError as error:
                log.warning("the checkpoint cannot be read (attempt %d of %d): %s", attempt, READ_ATTEMPTS, error)
                self._wait(term, self._retry_pause)
                if self._stopping or self._term != term:
                    return
        with self._condition:  # leading may not end between the check and the call
            if self._term == term:
                self._lead(checkpoint)

    def _save(self) -> None:
        try:
            self._file.write(self._ask())
        except (AlreadyExists, Conflict) as error:
            log.warning("another client has changed the checkpoint; it is overwritten: %s", error)
            self._read_version()
        except NotFound as error:
            log.warning("the checkpoint was deleted, or its namespace does not exist: %s", error)
            self._read_version()
        except (KubeError, InvalidCheckpoint, TimeoutError) as error:
            log.warning("the checkpoint cannot be written: %s", error)
        except Exception:  # a bug must not end the loop
            log.exception("the checkpoint cannot be written")

    def _read_version(self) -> None:
        try:
            self._file.read()
        except KubeError as error:
            log.warning("the checkpoint cannot be read: %s", error)
