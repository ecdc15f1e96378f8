"""The checkpoint as a ConfigMap of bounded size.

The ConfigMap has the checkpoint as JSON, compressed by gzip. A checkpoint that is too large keeps the earliest
reservations, and an annotation says how many of them.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zonewise_scheduler.backfill.checkpoint import Checkpoint

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.checkpoint import CheckpointReservation
    from zonewise_scheduler.controller.types import Json

NAME = "zonewise-controller-checkpoint"
MAX_BYTES = 900 * 1024
"""Of the compressed checkpoint. A ConfigMap has at most 1 MiB of data (pkg/apis/core/validation ValidateConfigMap)."""
RESERVATIONS_ANNOTATION = "zonewise.dev/checkpoint-reservations"
"""How many reservations the checkpoint has, of how many: "12 of 12"."""
_FIELD = "checkpoint.json.gz"
_MAX_DECOMPRESSED = 64 * 1024 * 1024
_LEVEL = 6
_SHRINK = 0.9
"""Part of the reservations that would fit by their average size, since sizes differ."""

_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(Checkpoint)


class InvalidCheckpoint(ValueError):
    """A ConfigMap without a checkpoint that can be read; the message names the field."""


class EncodedCheckpoint(NamedTuple):
    """A compressed checkpoint."""

    data: bytes
    reservations: int
    """How many it has."""
    all_reservations: int
    """How many there were."""


def encode_checkpoint(checkpoint: Checkpoint, max_bytes: int = MAX_BYTES) -> EncodedCheckpoint:
    """Return a checkpoint of at most `max_bytes`; where it is too large, with the earliest reservations alone.

    Raises InvalidCheckpoint where the usage of LocalQueues alone is too large.
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


def write_config_map(namespace: str, encoded: EncodedCheckpoint) -> Json:
    """Return the ConfigMap of a checkpoint."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "annotations": {RESERVATIONS_ANNOTATION: f"{encoded.reservations} of {encoded.all_reservations}"},
        },
        "binaryData": {_FIELD: base64.b64encode(encoded.data).decode()},
    }


def read_config_map(config_map: Json) -> Checkpoint:
    """Return the checkpoint of a ConfigMap. Raises InvalidCheckpoint."""
    field = f"binaryData[{_FIELD}]"
    try:
        data: Json = config_map.get("binaryData") or {}
        compressed = base64.b64decode(data[_FIELD], validate=True)
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        encoded = stream.decompress(compressed, _MAX_DECOMPRESSED)
        if stream.unconsumed_tail or not stream.eof:
            raise InvalidCheckpoint(f"{field}: cut off, or larger than {_MAX_DECOMPRESSED} bytes")
        return _DECODER.decode(encoded)
    except (KeyError, TypeError, binascii.Error, zlib.error, msgspec.DecodeError) as error:
        raise InvalidCheckpoint(f"{field}: {error!r:.200}") from error


def _start(reservation: CheckpointReservation) -> float:
    return inf if reservation["start"] is None else reservation["start"]
