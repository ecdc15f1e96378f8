"""The checkpoint as a ConfigMap of bounded size.

The ConfigMap contains the checkpoint as gzip-compressed JSON. If the checkpoint is too large, only the earliest
reservations are kept, and an annotation shows how many. A separate field contains the forecast history. If it exceeds
MAX_FORECAST_BYTES, only its newest part is written. It is left out if it does not fit beside the checkpoint.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from zonewise_scheduler.backfill.forecast.document import (
    ForecastDocument,
    make_forecast_document,
    read_forecast_document,
)
from zonewise_scheduler.backfill.state.checkpoint import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.backfill.forecast.history import ForecastHistory
    from zonewise_scheduler.backfill.state.checkpoint import CheckpointReservation
    from zonewise_scheduler.controller.types import Json

NAME = "zonewise-controller-checkpoint"
MAX_BYTES = 900 * 1024
"""Maximum size of the compressed checkpoint. ConfigMap data is limited to 1 MiB (pkg/apis/core/validation
ValidateConfigMap)."""
MAX_FORECAST_BYTES = 256 * 1024
"""Maximum size of the compressed forecast history. It is written with each checkpoint, so it has its own bound."""
RESERVATIONS_ANNOTATION = "zonewise.dev/checkpoint-reservations"
"""Number of reservations in the checkpoint, and number of all reservations: "12 of 12"."""
_FIELD = "checkpoint.json.gz"
_FORECAST_FIELD = "forecasts.json.gz"
_MAX_DECOMPRESSED = 64 * 1024 * 1024
_LEVEL = 6
_SHRINK = 0.9
"""Fraction of the reservations that would fit by their average size, since sizes vary."""

_MIN_SHARE = 1e-6
"""Share of the forecast history below which nothing of it remains."""
T = TypeVar("T")

_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(Checkpoint)
_FORECAST_DECODER = msgspec.json.Decoder(ForecastDocument)


class InvalidCheckpoint(ValueError):
    """The ConfigMap contains no readable checkpoint. The message names the field."""


class EncodedCheckpoint(NamedTuple):
    """A compressed checkpoint."""

    data: bytes
    reservations: int
    """Number of reservations in the checkpoint."""
    all_reservations: int
    """Number of reservations before any were left out."""


def encode_checkpoint(checkpoint: Checkpoint, max_bytes: int = MAX_BYTES) -> EncodedCheckpoint:
    """Return a checkpoint of at most `max_bytes`. If it is too large, only the earliest reservations are kept.

    Raises InvalidCheckpoint if the usage of the LocalQueues is too large by itself.
    """
    reservations = checkpoint["reservations"]
    by_start = sorted(range(len(reservations)), key=lambda i: _start(reservations[i]))
    count = len(reservations)
    while True:
        kept = [reservations[i] for i in sorted(by_start[:count])]
        data = gzip.compress(_ENCODER.encode({**checkpoint, "reservations": kept}), _LEVEL, mtime=0)
        if len(data) <= max_bytes:
            return EncodedCheckpoint(data, count, len(reservations))
        if not count:
            raise InvalidCheckpoint(f"the usage of {len(checkpoint['usage'])} LocalQueues has {len(data)} bytes")
        count = min(count - 1, int(count * max_bytes / len(data) * _SHRINK))


def encode_forecasts(history: ForecastHistory, max_bytes: int = MAX_FORECAST_BYTES) -> bytes:
    """Return the forecast history, compressed to at most `max_bytes`; empty if no part of it fits."""
    share = 1.0
    while share > _MIN_SHARE:
        data = gzip.compress(_ENCODER.encode(make_forecast_document(history, share)), _LEVEL, mtime=0)
        if len(data) <= max_bytes:
            return data
        share *= max_bytes / len(data) * _SHRINK
    return b""


def write_config_map(namespace: str, encoded: EncodedCheckpoint, forecasts: bytes = b"") -> Json:
    """Return the ConfigMap of a checkpoint; `forecasts`: from encode_forecasts, left out if they do not fit."""
    fields = {_FIELD: encoded.data}
    if forecasts and len(forecasts) + len(encoded.data) <= MAX_BYTES:
        fields[_FORECAST_FIELD] = forecasts
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "annotations": {RESERVATIONS_ANNOTATION: f"{encoded.reservations} of {encoded.all_reservations}"},
        },
        "binaryData": {field: base64.b64encode(data).decode() for field, data in fields.items()},
    }


def read_config_map(config_map: Json) -> Checkpoint:
    """Return the checkpoint in a ConfigMap. Raises InvalidCheckpoint."""
    return _decode(config_map, _FIELD, _DECODER.decode)


def read_forecasts(config_map: Json) -> ForecastHistory | None:
    """Return the forecast history in a ConfigMap; None: it contains none. Raises InvalidCheckpoint."""
    if _FORECAST_FIELD not in (config_map.get("binaryData") or {}):
        return None
    return _decode(
        config_map, _FORECAST_FIELD, lambda encoded: read_forecast_document(_FORECAST_DECODER.decode(encoded))
    )


def _decode(config_map: Json, name: str, decode: Callable[[bytes], T]) -> T:
    """Decompress and decode a field. Raises InvalidCheckpoint."""
    field = f"binaryData[{name}]"
    try:
        data: Json = config_map.get("binaryData") or {}
        compressed = base64.b64decode(data[name], validate=True)
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        encoded = stream.decompress(compressed, _MAX_DECOMPRESSED)
        if stream.unconsumed_tail or not stream.eof:
            raise InvalidCheckpoint(f"{field}: cut off, or larger than {_MAX_DECOMPRESSED} bytes")
        return decode(encoded)
    except (KeyError, IndexError, TypeError, binascii.Error, zlib.error, msgspec.DecodeError) as error:
        raise InvalidCheckpoint(f"{field}: {error!r:.200}") from error


def _start(reservation: CheckpointReservation) -> float:
    return inf if reservation["start"] is None else reservation["start"]
