"""The first line of a recording: it restores the policy and the settings, and errors name missing fields."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest

from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, policy_named
from zonewise_scheduler.backfill.recording.header import RecordingHeader, read_header
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS, AdmissionFairSharingConfig
from zonewise_scheduler.quota.api.resource_settings import ResourceSettings

EASY: dict[str, Any] = {"recording": 1, "policy": "easy"}
FAIR_SHARING = DEFAULT_SETTINGS._replace(fair_sharing=True)


@pytest.mark.parametrize(
    ("header", "document"),
    [
        (
            RecordingHeader("easy"),
            {
                "recording": 1,
                "policy": "easy",
                "reserveAfter": None,
                "fairSharing": False,
                "nodes": False,
                "allowUnknownNodes": True,
            },
        ),
        (
            RecordingHeader(DEFAULT_POLICY, 90.5, FAIR_SHARING, nodes=True, allow_unknown_nodes=False),
            {
                "recording": 1,
                "policy": DEFAULT_POLICY,
                "reserveAfter": 90.5,
                "fairSharing": True,
                "nodes": True,
                "allowUnknownNodes": False,
            },
        ),
        (
            RecordingHeader("depth-4", float("inf"), nodes=True),
            {
                "recording": 1,
                "policy": "depth-4",
                "reserveAfter": None,
                "fairSharing": False,
                "nodes": True,
                "allowUnknownNodes": True,
            },
        ),
        (
            RecordingHeader("greedy", 0.0, FAIR_SHARING),
            {
                "recording": 1,
                "policy": "greedy",
                "reserveAfter": 0.0,
                "fairSharing": True,
                "nodes": False,
                "allowUnknownNodes": True,
            },
        ),
    ],
)
def test_a_header_survives_serialization_as_json(header: RecordingHeader, document: dict[str, Any]) -> None:
    assert header.document() == document
    assert read_header(json.loads(json.dumps(document, allow_nan=False))) == header


def test_settings_of_the_quota_survive_serialization() -> None:
    settings = DEFAULT_SETTINGS._replace(
        resources=ResourceSettings(exclude_resource_prefixes=("example.com/",)),
        admission_fair_sharing=AdmissionFairSharingConfig(60.0, 5.0, {"cpu": 2.0}),
    )
    header = RecordingHeader("easy", quota_settings=settings)
    assert read_header(json.loads(json.dumps(header.document(), allow_nan=False))) == header


@pytest.mark.parametrize(
    ("fields", "header"),
    [
        ({}, RecordingHeader("easy", inf, DEFAULT_SETTINGS, nodes=False, allow_unknown_nodes=True)),
        ({"reserveAfter": 7}, RecordingHeader("easy", 7.0)),
        ({"fairSharing": True}, RecordingHeader("easy", quota_settings=FAIR_SHARING)),
        ({"nodes": True}, RecordingHeader("easy", nodes=True)),
        ({"allowUnknownNodes": False}, RecordingHeader("easy", allow_unknown_nodes=False)),
    ],
)
def test_an_absent_field_has_its_default(fields: dict[str, Any], header: RecordingHeader) -> None:
    assert read_header(EASY | fields) == header


@pytest.mark.parametrize(
    ("name", "reserve_after"), [("easy", inf), ("fifo", 0.0), (DEFAULT_POLICY, 60.0), (DEFAULT_POLICY, inf)]
)
def test_a_header_has_the_policy(name: str, reserve_after: float) -> None:
    assert RecordingHeader(name, reserve_after).backfill_policy == policy_named(name, reserve_after)


@pytest.mark.parametrize("version", [None, 0, 2, -1, "1", True])
def test_another_version_is_an_error(version: object) -> None:
    with pytest.raises(ValueError, match="recording: not 1, the version that is known: ") as error:
        read_header(EASY | {"recording": version})
    assert str(error.value).endswith(f": {version!r}")


def test_a_setting_of_a_later_version_is_an_error() -> None:
    """Without it, a replay would decide otherwise, and report differences that are none."""
    with pytest.raises(ValueError, match=r"^later: unknown field$"):
        read_header(EASY | {"later": True})


def test_errors_quote_at_most_eighty_characters_of_a_version() -> None:
    with pytest.raises(ValueError, match="recording: not 1") as error:
        read_header(EASY | {"recording": "x" * 200})
    assert str(error.value).partition("known: ")[-1] == "'" + "x" * 79


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"policy": None}, "policy: is missing"),
        ({"reserveAfter": -1}, "reserveAfter: not a non-negative number"),
        ({"fairSharing": 1}, "fairSharing: neither true nor false"),
        ({"nodes": "yes"}, "nodes: neither true nor false"),
        ({"allowUnknownNodes": 0, "nodes": 0}, "nodes: neither .*; allowUnknownNodes: neither true nor false"),
        ({"resources": {"x": 1}}, "resources.x: unknown field"),
        ({"policy": "none"}, "policy: none: unknown policy; the policies are "),
        ({"policy": "depth-x"}, "policy: depth-x: unknown policy; the policies are "),
    ],
)
def test_an_invalid_field_is_an_error_that_names_it(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_header(EASY | fields)
