"""The checkpoint as a ConfigMap: it survives the way, it is bounded, and a damaged one is an error."""

from __future__ import annotations

import base64
import gzip
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.controller.planning.checkpoint_object import (
    RESERVATIONS_ANNOTATION,
    InvalidCheckpoint,
    encode_checkpoint,
    read_config_map,
    write_config_map,
)

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.checkpoint import Checkpoint, CheckpointReservation

FIELD = "checkpoint.json.gz"


def reservation(name: str, start: float | None) -> CheckpointReservation:
    return {
        "workload": f"ns/{name}",
        "queue": "q",
        "start": start,
        "pod_sets": [
            {
                "name": "main",
                "flavors": {"cpu": "f"},
                "usage": {"cpu": 4000},
                "pods": 2,
                "topology_assignment": {"levels": ["rack", "host"], "domains": [(["r1", "h1"], 2)]},
                "delayed_topology_request": "",
            }
        ],
        "waits_for": ["ns/a"],
        "victims": [],
    }


STARTS = st.one_of(st.none(), st.floats(0, 4e9, allow_nan=False))


@given(st.lists(STARTS, max_size=8), st.dictionaries(st.text(min_size=1), st.floats(0, 1e9), max_size=3))
def test_a_checkpoint_survives_the_way_through_a_config_map(
    starts: list[float | None], usage: dict[str, float]
) -> None:
    checkpoint: Checkpoint = {
        "reservations": [reservation(f"w{i}", start) for i, start in enumerate(starts)],
        "usage": {"ns/l": {"consumed": usage, "last_update": 1.5, "pending_penalty": {}}},
    }
    config_map = json.loads(json.dumps(write_config_map("ns", encode_checkpoint(checkpoint))))
    assert read_config_map(config_map) == checkpoint
    assert config_map["metadata"]["annotations"][RESERVATIONS_ANNOTATION] == f"{len(starts)} of {len(starts)}"


@given(st.lists(STARTS, min_size=1, max_size=60), st.integers(300, 3000))
def test_a_checkpoint_that_is_too_large_keeps_the_earliest_reservations(starts: list[float | None], limit: int) -> None:
    names = random.Random(1)
    checkpoint: Checkpoint = {
        "reservations": [reservation(f"w{names.getrandbits(256):x}", start) for start in starts],
        "usage": {},
    }
    encoded = encode_checkpoint(checkpoint, limit)
    assert len(encoded.data) <= limit
    assert encoded.all_reservations == len(starts)
    read = read_config_map(write_config_map("ns", encoded))
    kept = [each["workload"] for each in read["reservations"]]
    assert len(kept) == encoded.reservations
    dropped = [each for each in checkpoint["reservations"] if each["workload"] not in kept]
    latest = max((_start(each) for each in read["reservations"]), default=0.0)
    assert all(_start(each) >= latest for each in dropped)
    order = [each["workload"] for each in checkpoint["reservations"] if each["workload"] in kept]
    assert kept == order


def test_usage_that_is_too_large_is_an_error() -> None:
    names = random.Random(1)
    usage = {
        f"ns/{names.getrandbits(256):x}": {"consumed": {"cpu": 1.0}, "last_update": 1.0, "pending_penalty": {}}
        for _ in range(100)
    }
    checkpoint: Any = {"reservations": [], "usage": usage}
    with pytest.raises(InvalidCheckpoint, match="usage of 100 LocalQueues"):
        encode_checkpoint(checkpoint, 500)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {FIELD: 7},
        {FIELD: "?"},
        {FIELD: "AAAA"},
        {FIELD: base64.b64encode(gzip.compress(b"{}")).decode()},
        {FIELD: base64.b64encode(gzip.compress(b'{"reservations": [{"workload": 1}], "usage": {}}')).decode()},
        {FIELD: base64.b64encode(gzip.compress(b'{"reservations": [], "usage": {}}')[:-4]).decode()},
        {FIELD: base64.b64encode(gzip.compress(bytes(65 * 1024 * 1024), 9)).decode()},
    ],
    ids=["no-data", "no-field", "number", "no-base64", "no-gzip", "empty", "wrong-type", "cut-off", "too-large"],
)
def test_a_damaged_checkpoint_is_an_error_that_names_the_field(data: object) -> None:
    with pytest.raises(InvalidCheckpoint, match=r"checkpoint\.json\.gz"):
        read_config_map({"binaryData": data})


def _start(each: CheckpointReservation) -> float:
    return float("inf") if each["start"] is None else each["start"]
