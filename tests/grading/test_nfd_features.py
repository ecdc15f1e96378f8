"""Features graded against Node Feature Discovery's sources on the same trees: every element of each feature.

The recordings contain the raw features of NFD's commit 76e6cc8c (after v0.19) for each captured machine. Every kernel
has the links in /sys/bus/cpu and /sys/bus/node; if a capture lacks them, they were added for the recording. A
deliberate difference has an entry below.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.snapshots import ABSENT, SNAPSHOTS, scan_of
from zonewise.objects.feature_groups import FEATURE_GROUPS
from zonewise.objects.features import Features, node_features

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "nfd_features.json"

Attributes = dict[str, str]


@functools.cache
def recordings() -> dict[str, dict[str, Any]]:
    return json.loads(RECORDINGS.read_text())


@functools.cache
def features_of(name: str) -> Features:
    return node_features(scan_of(name).machine, FEATURE_GROUPS)


CASES = [(name, feature) for name, features in recordings().items() for feature in features]

pytestmark = pytest.mark.skipif(not SNAPSHOTS.exists(), reason=ABSENT)


def without(*names: str) -> Callable[[Attributes], Attributes]:
    return lambda attributes: {name: text for name, text in attributes.items() if name not in names}


DIFFERENCES: dict[str, Callable[[Attributes], Attributes]] = {
    # NFD counts distinct ids; POWER, s390, sparc and ia64 print the same id for all packages
    "cpu.topology": without("socket_count"),
    # asset tags identify property; a blank string is unknown
    "system.dmiid": lambda attributes: {
        name: text for name, text in attributes.items() if text and not name.endswith("asset_tag")
    },
    # the kernel returns an error for a link that is down; captures contain an empty file instead
    "network.device": lambda attributes: {name: text for name, text in attributes.items() if text},
    "network.virtual": lambda attributes: {name: text for name, text in attributes.items() if text},
}
"""Attributes that are removed from a recording, by feature."""

SKIPPED = {
    # captures without /sys/kernel/mm/hugepages, or with pools only in the nodes
    ("hwloc/32amd64-4s2n4c-cgroup2", "memory.hugepages"): "the capture has pools, and no zone in which they are",
    ("hwloc/40intel64-4n10c+pci-conflicts", "memory.hugepages"): "the capture has pools in the zones only",
    ("lscpu/vbox-win", "memory.hugepages"): "the capture has pools in the zones only",
}

OTHER_LIST = "the capture lists other devices in /sys/block, which is NFD's source, than in /sys/class/block"
SKIPPED["hwloc/32em64t-2n8c+dax+nvme+mic+dimms", "storage.block"] = OTHER_LIST

SOFTWARE = ("loop", "ram", "dm-", "md")
"""Block devices that software creates, by the prefix of their names."""


def expected_attributes(feature: str, recorded: Attributes) -> Attributes:
    return DIFFERENCES.get(feature, without())(recorded)


def expected_instances(feature: str, recorded: dict[str, Any]) -> list[Attributes]:
    rows = [dict(zip(recorded["columns"], row, strict=True)) for row in recorded["rows"]]
    instances = [{name: text for name, text in row.items() if text is not None} for row in rows]
    if feature == "storage.block":
        instances = [instance for instance in instances if not instance["name"].startswith(SOFTWARE)]
    return [expected_attributes(feature, instance) for instance in instances]


@pytest.mark.parametrize(("name", "feature"), CASES)
def test_feature(name: str, feature: str) -> None:
    """Attributes are equal; instances are equal and in the same order, but ours have further attributes."""
    if reason := SKIPPED.get((name, feature)):
        pytest.skip(reason)
    recorded = recordings()[name][feature]
    features = features_of(name)
    if "columns" not in recorded:
        expected = expected_attributes(feature, recorded)
        ours = features.attributes.get(feature, {})
        assert {name: ours.get(name) for name in expected} == expected
        return
    instances = features.instances[feature]
    reduced = [{name: text for name, text in one.items() if name in recorded["columns"]} for one in instances]
    assert reduced == expected_instances(feature, recorded)


def test_the_recordings_cover_all_features() -> None:
    """Each feature that a tree can contain is graded, on more than a few instances."""
    graded = {feature for _, feature in CASES}
    assert {"cpu.topology", "memory.numa", "network.device", "network.virtual", "pci.device"} <= graded
    assert sum(len(features.get("pci.device", {}).get("rows", ())) for features in recordings().values()) > 400
