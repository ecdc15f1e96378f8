"""The checkpoint as a ConfigMap: it survives serialization, its size is bounded, and a damaged one is an error."""

from __future__ import annotations

import base64
import gzip
import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import make_workload
from zonewise_scheduler.backfill.forecast.document import make_forecast_document
from zonewise_scheduler.backfill.forecast.history import ForecastHistory
from zonewise_scheduler.controller.planning.checkpoint_object import (
    MAX_BYTES,
    MAX_FORECAST_BYTES,
    RESERVATIONS_ANNOTATION,
    EncodedCheckpoint,
    InvalidCheckpoint,
    encode_checkpoint,
    encode_forecasts,
    read_config_map,
    read_forecasts,
    write_config_map,
)
from zonewise_scheduler.quota.api.workload_types import Admission

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.state.checkpoint import Checkpoint, CheckpointReservation

FIELD, FORECASTS = "checkpoint.json.gz", "forecasts.json.gz"


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
def test_a_checkpoint_survives_serialization_as_a_config_map(
    starts: list[float | None], usage: dict[str, float]
) -> None:
    checkpoint: Checkpoint = {
        "reservations": [reservation(f"w{i}", start) for i, start in enumerate(starts)],
        "usage": {"ns/l": {"consumed": usage, "last_update": 1.5}},
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
    usage = {f"ns/{names.getrandbits(256):x}": {"consumed": {"cpu": 1.0}, "last_update": 1.0} for _ in range(100)}
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


# --- the learned state of forecasts


def learned(workloads: int) -> ForecastHistory:
    """Return a history of workloads that differ in everything that a user may choose."""
    names, history = random.Random(1), ForecastHistory()
    for number in range(workloads):
        walltime = names.randint(1, 100_000)
        workload = replace(
            make_workload(f"w{number}", names.randint(1, 64), walltime, at=number, local=f"{names.getrandbits(64):x}"),
            uid=f"{names.getrandbits(128):x}",
            history_keys=("ns", "l", f"{names.getrandbits(64):x}"),
            admission=Admission("q", (), 0.0),
        )
        history.admitted([workload], 0.0)
        if number % 2:
            history.ended(workload, names.uniform(0, walltime))
    return history


EMPTY: Checkpoint = {"reservations": [], "usage": {}}


def test_the_learned_state_of_forecasts_survives_serialization_as_a_config_map() -> None:
    history = learned(50)
    config_map = write_config_map("ns", encode_checkpoint(EMPTY), encode_forecasts(history))
    restored = read_forecasts(json.loads(json.dumps(config_map)))
    assert restored is not None
    assert make_forecast_document(restored) == make_forecast_document(history)
    assert read_forecasts(write_config_map("ns", encode_checkpoint(EMPTY))) is None


@pytest.mark.parametrize("limit", [150, 1000, 10_000])
def test_forecasts_that_are_too_large_keep_the_newest_records(limit: int) -> None:
    history = learned(500)
    data = encode_forecasts(history, limit)
    assert len(data) <= limit
    restored = read_forecasts(write_config_map("ns", encode_checkpoint(EMPTY), data)) if data else ForecastHistory()
    assert restored is not None
    count = len(restored.arrivals)
    assert limit // 400 <= count < 500
    assert [past.time for past in restored.arrivals.newest(500)] == list(range(500 - count, 500))


def test_the_largest_history_fits() -> None:
    """The real limit requires at most two attempts; here, a sample of a full history suffices."""
    assert 0 < len(encode_forecasts(learned(4000))) <= MAX_FORECAST_BYTES


def test_nothing_is_written_if_nothing_fits() -> None:
    assert encode_forecasts(learned(5), 10) == b""


def test_a_checkpoint_omits_forecasts_if_both_together_are_too_large() -> None:
    encoded = EncodedCheckpoint(bytes(MAX_BYTES - 10), 0, 0)
    assert list(write_config_map("ns", encoded, bytes(11))["binaryData"]) == [FIELD]
    assert list(write_config_map("ns", encoded, bytes(10))["binaryData"]) == [FIELD, FORECASTS]


@pytest.mark.parametrize(
    "data",
    [
        7,
        "AAAA",
        base64.b64encode(gzip.compress(b"{}")).decode(),
        base64.b64encode(
            gzip.compress(
                b'{"templates": [], "arrivals": [[3, 1.0, null, "", ""]], "groups": [], "runs": [], "open": [],'
                b' "scores": []}'
            )
        ).decode(),
    ],
    ids=["number", "no-gzip", "empty", "unknown-template"],
)
def test_damaged_forecasts_are_an_error_that_names_the_field(data: object) -> None:
    with pytest.raises(InvalidCheckpoint, match=r"forecasts\.json\.gz"):
        read_forecasts({"binaryData": {FORECASTS: data}})


def _start(each: CheckpointReservation) -> float:
    return float("inf") if each["start"] is None else each["start"]
