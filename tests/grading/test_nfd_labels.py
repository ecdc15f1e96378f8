"""Labels graded against those of nfd-worker on the same trees, under several configurations of the worker.

The recordings contain the labels of NFD's v0.19.0, except those from the running machine (cpu, kernel and system)
instead of the tree. Every kernel has the links in /sys/bus/cpu and /sys/bus/node; if a capture lacks them, they were
added for the recording. A deliberate difference has an entry below.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from support.snapshots import ABSENT, SNAPSHOTS, scan_of
from zonewise.machine.physical_nics import physical_rdma
from zonewise.nfd.types import NO_LOCAL_FEATURES
from zonewise.nfd.worker_config import parse_worker_config
from zonewise.objects.features import node_features
from zonewise.objects.labels import LabelConfig, build_labels
from zonewise.objects.nfd_labels import PREFIX

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "nfd_labels.json"

OF_THE_RUNNING_MACHINE = tuple(f"{PREFIX}/{source}-" for source in ("cpu", "kernel", "system"))
OTHER_DRIVES = {"hwloc/32em64t-2n8c+dax+nvme+mic+dimms"}
"""In this capture, /sys/block, which NFD reads, lists other devices than /sys/class/block."""


@functools.cache
def recordings() -> dict[str, Any]:
    return json.loads(RECORDINGS.read_text())


CASES = [(name, configuration) for name, labels in recordings()["labels"].items() for configuration in labels]

pytestmark = pytest.mark.skipif(not SNAPSHOTS.exists(), reason=ABSENT)


def labels_of(name: str, configuration: str) -> dict[str, str]:
    worker = parse_worker_config(recordings()["configurations"][configuration].encode())[0]
    machine = scan_of(name).machine
    features = node_features(machine, worker=worker)
    labels = build_labels(machine, features, NO_LOCAL_FEATURES, LabelConfig(worker=worker)).values
    return {
        name: value
        for name, value in labels.items()
        if not name.startswith((*OF_THE_RUNNING_MACHINE, "zonewise.dev/", "nvidia.com/", "amd.com/"))
    }


@pytest.mark.parametrize(("name", "configuration"), CASES)
def test_labels(name: str, configuration: str) -> None:
    """Names and values are equal."""
    # the master adds a prefix to names without a namespace (nfd-master.go, addNs)
    recorded = recordings()["labels"][name][configuration]
    expected = {label if "/" in label else f"{PREFIX}/{label}": value for label, value in recorded.items()}
    ours = labels_of(name, configuration)
    if f"{PREFIX}/rdma.capable" not in expected and configuration != "filtered":
        # NFD detects one vendor by its PCI functions, which this capture may lack
        assert (ours.pop(f"{PREFIX}/rdma.capable", None) is not None) == bool(physical_rdma(scan_of(name).machine))
    if name in OTHER_DRIVES:
        ours.pop(f"{PREFIX}/storage-nonrotationaldisk", None)
    assert ours == expected


def test_the_recordings_have_enough() -> None:
    """There are ten machines, five configurations, and labels of every source that a tree can contain."""
    labels = {label for machine in recordings()["labels"].values() for one in machine.values() for label in one}
    assert len(CASES) == 50
    sources = {label.removeprefix(f"{PREFIX}/").partition("-")[0] for label in labels}
    assert sources >= {"pci", "memory", "network"}
