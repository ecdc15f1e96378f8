"""Store the checkpoint in the API server while this replica leads, and restore it when this replica starts to lead.

    event                      what happens
    the lease is acquired      the checkpoint is read; then the controller leads, with the checkpoint
    every PERIOD               the checkpoint is written, if it has changed
    at FORECAST_RATE at most   the forecast history is written with it, if it has changed
    the lease is lost          the controller no longer leads; nothing more is written
    the program stops          the checkpoint is written once more; then the lease is released

Each write names the version that was last read or written. So if two replicas both believe that they lead, the later
write fails. A replica that still holds the lease then reads the new version, and writes again after a period.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from zonewise_common.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from zonewise_common.kube.resources import CONFIG_MAPS
from zonewise_scheduler.controller.planning.checkpoint_object import (
    NAME,
    InvalidCheckpoint,
    encode_checkpoint,
    encode_forecasts,
    read_config_map,
    read_forecasts,
    write_config_map,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.backfill.forecast.history import ForecastHistory
    from zonewise_scheduler.backfill.state.checkpoint import Checkpoint

log = logging.getLogger(__name__)

PERIOD = 30.0
"""Seconds between two writes. A crash loses more recent reservations, which are then made again."""
FORECAST_RATE = 1024.0
"""Maximum rate in bytes per second at which the forecast history is written. At 30 KiB (1,200 workloads), a crash
loses what was learned in the last 30 s. At the maximum of 256 KiB, a crash loses the last 256 s.
Compressing 256 KiB takes 0.4 s of CPU time."""
READ_ATTEMPTS = 30
"""Number of failed attempts to read the checkpoint after which the controller leads without it: half a minute. An API
server that has just started or is overloaded may respond with errors for some seconds."""
_RETRY_PAUSE = 1.0
_STOP_TIMEOUT = 3.0


T = TypeVar("T")


class StoredCheckpoint(NamedTuple):
    """The contents of the ConfigMap; None: nothing that can be read."""

    checkpoint: Checkpoint | None = None
    forecasts: ForecastHistory | None = None
    """The forecast history."""


class CheckpointFile:
    """The ConfigMap, with the version that was last read or written."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._version: str | None = None
        """Resource version; None: the ConfigMap does not exist."""
        self._data: tuple[bytes, bytes] = b"", b""
        """The checkpoint and the forecast history as last written."""

    @property
    def forecast_bytes(self) -> int:
        """Return the size of the forecast history as last written."""
        return len(self._data[1])

    def read(self) -> StoredCheckpoint:
        """Return the readable contents. Raises KubeError."""
        self._data = b"", b""
        try:
            config_map = self._client.get(CONFIG_MAPS, NAME, namespace=self._namespace)
        except NotFound:
            self._version = None
            return StoredCheckpoint()
        self._version = config_map["metadata"]["resourceVersion"]
        return StoredCheckpoint(
            self._readable(lambda: read_config_map(config_map)), self._readable(lambda: read_forecasts(config_map))
        )

    def _readable(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except InvalidCheckpoint as error:
            log.error("ConfigMap %s/%s is ignored: %s", self._namespace, NAME, error)  # noqa: TRY400 -- no defect
            return None

    def write(self, checkpoint: Checkpoint, forecasts: ForecastHistory | None = None) -> bool:
        """Write a checkpoint unless it equals the last one, and return whether it was written.

        `forecasts`: the forecast history; None: the one that was last written remains.

        Raises KubeError: Conflict or AlreadyExists if another replica has written, NotFound if the ConfigMap was
        deleted. Raises InvalidCheckpoint.
        """
        encoded = encode_checkpoint(checkpoint)
        learned = self._data[1] if forecasts is None else encode_forecasts(forecasts)
        if (encoded.data, learned) == self._data:
            return False
        if encoded.reservations < encoded.all_reservations:
            log.warning("the checkpoint contains only the earliest %d of %d reservations: more would not fit into a "
                "ConfigMap",
                        encoded.reservations, encoded.all_reservations)  # fmt: skip
        config_map = write_config_map(self._namespace, encoded, learned)
        if self._version is None:
            written = self._client.create(CONFIG_MAPS, config_map)
        else:
            config_map["metadata"]["resourceVersion"] = self._version
            written = self._client.replace(CONFIG_MAPS, config_map)
        self._version, self._data = written["metadata"]["resourceVersion"], (encoded.data, learned)
        return True


class CheckpointStore:
    """Runs a thread that restores and writes the checkpoint. It works while the context is entered."""

    def __init__(
        self,
        file: CheckpointFile,
        *,
        get_checkpoint: Callable[[], Checkpoint],
        lead: Callable[[Checkpoint | None, ForecastHistory | None], object],
        get_forecasts: Callable[[], ForecastHistory],
        period: float = PERIOD,
        forecast_rate: float = FORECAST_RATE,
        retry_pause: float = _RETRY_PAUSE,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        """Set the controller's functions.

        `get_checkpoint` returns the controller's checkpoint, and `get_forecasts` a copy of its forecast history. Both
        may raise TimeoutError. `lead` makes the controller lead. Nothing is written while `may_write` returns False: a
        paused process may resume after another replica has started to lead, before it is told so.
        """
        self._file = file
        self._get_checkpoint = get_checkpoint
        self._get_forecasts = get_forecasts
        self._forecast_rate = forecast_rate
        self._forecasts_due_at = 0.0
        """When the forecast history may be written again, by time.monotonic()."""
        self._lead = lead
        self._period = period
        self._retry_pause = retry_pause
        self._may_write = may_write
        self._condition = threading.Condition()
        self._term = 0
        """Number of times that leading began or ended. It is odd while this replica leads."""
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
        """Read the checkpoint and make the controller lead. Returns at once."""
        self._set_leading(leads=True)

    def stop_leading(self) -> None:
        """Stop writing."""
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
                restored = term if self._restore(term) else restored
            else:
                self._wait(term, self._period)
                if self._term == term and not self._stopping:
                    self._save()
        if self._term % 2 == 1 and restored == self._term:
            self._save()

    def _wait(self, term: int, seconds: float | None) -> None:
        """Wait for a number of seconds, or until leading begins or ends or the program stops."""
        with self._condition:
            self._condition.wait_for(lambda: self._stopping or self._term != term, seconds)

    def _restore(self, term: int) -> bool:
        """Read the checkpoint and start to lead. Return False if leading or the program has ended meanwhile."""
        stored = StoredCheckpoint()
        for attempt in range(1, READ_ATTEMPTS + 1):
            try:
                stored = self._read()
                break
            except Exception as error:  # whatever the server responds: without this thread, the replica never leads
                log.warning("the checkpoint cannot be read (attempt %d of %d): %s", attempt, READ_ATTEMPTS, error,
                            exc_info=not isinstance(error, KubeError))  # fmt: skip
                self._wait(term, self._retry_pause)
                if self._stopping or self._term != term:
                    return False
        with self._condition:  # leading must not end between the check and the call
            if self._stopping or self._term != term:
                return False
            self._lead(*stored)
            return True

    def _save(self) -> None:
        if not self._may_write():
            return
        try:
            self._write()
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

    def _write(self) -> None:
        """Write a checkpoint. Include the forecast history as the rate permits, and when the program stops."""
        due = self._stopping or time.monotonic() >= self._forecasts_due_at
        self._file.write(self._get_checkpoint(), self._get_forecasts() if due else None)
        if due:
            self._forecasts_due_at = time.monotonic() + self._file.forecast_bytes / self._forecast_rate

    def _read(self) -> StoredCheckpoint:
        self._forecasts_due_at = 0.0  # the next checkpoint is written completely
        return self._file.read()

    def _read_version(self) -> None:
        try:
            self._read()
        except Exception as error:  # as above
            log.warning("the checkpoint cannot be read: %s", error, exc_info=not isinstance(error, KubeError))
