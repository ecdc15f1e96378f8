"""The labels that GPU Feature Discovery wrote (NVIDIA/k8s-device-plugin 1b826acc).

The file gfd_labels_h100.json contains its labels on a virtual machine with one H100, under five configurations. The
file nvml_h100.json contains NVML's results there. The file gfd_labels_mig.json contains its labels of resources on a
stand-in for NVML. The stand-in has GPUs that are split, shared, or of a special model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.machine_parts import Slot, function
from zonewise.gfd.device_plugin_config import parse_device_plugin_config
from zonewise.machine.model.gpu import Gpu, Mig, MigInstance
from zonewise.machine.model.machine import Machine
from zonewise.machine.nvml.facts_json import from_json
from zonewise.machine.nvml.gpu_description import describe_gpu
from zonewise.objects.labels import LabelConfig, machine_to_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

FIXTURES = Path(__file__).parents[3] / "fixtures"
RECORDINGS: list[dict[str, Any]] = json.loads((FIXTURES / "gfd_labels_h100.json").read_text())
SPLIT: list[dict[str, Any]] = json.loads((FIXTURES / "gfd_labels_mig.json").read_text())
OF_THE_MACHINE = ("cuda.", "gpu.machine", "gpu.mode", "vgpu.")
MIB = 1 << 20


@pytest.fixture(scope="module")
def machine() -> Machine:
    """Return the recorded machine: its GPU, a 3D controller, as NVML describes it."""
    facts = from_json((FIXTURES / "nvml_h100.json").read_text())
    (recorded,) = facts.gpus
    assert recorded.address is not None
    controller = function(recorded.address, "0302", ("10de", "2330"), Slot("pci0000:00", (), None))
    gpu = Gpu(recorded.address, None, "nvidia", None, None, None, "nvidia", None, None, None)
    return Machine(gpus=(describe_gpu(gpu, recorded, facts),), pci=(controller,))


@pytest.mark.parametrize(
    "recording", RECORDINGS, ids=["MIG none", "MIG single", "MIG mixed", "time-slicing", "MPS, renamed"]
)
def test_labels_equal_those_that_gfd_wrote(recording: Mapping[str, Any], machine: Machine) -> None:
    """All labels are equal, and no other label below nvidia.com exists."""
    config = parse_device_plugin_config(json.dumps(recording["config"]).encode())
    labels = machine_to_labels(machine, config=LabelConfig(config))
    assert {name: value for name, value in labels.items() if name.startswith("nvidia.com/")} == recording["labels"]


@pytest.mark.parametrize("recording", SPLIT, ids=[recording["name"] for recording in SPLIT])
def test_labels_of_resources_equal_those_that_gfd_wrote(recording: Mapping[str, Any]) -> None:
    """All labels of whole GPUs and of MIG devices are equal, and no others exist."""
    config = parse_device_plugin_config(json.dumps(recording["config"]).encode())
    gpus = tuple(recorded_gpu(number, gpu) for number, gpu in enumerate(recording["gpus"]))
    labels = machine_to_labels(Machine(gpus=gpus), config=LabelConfig(config))
    names = (name.removeprefix("nvidia.com/") for name in labels if name.startswith("nvidia.com/"))
    ours = {name: labels[f"nvidia.com/{name}"] for name in names if not name.startswith(OF_THE_MACHINE)}
    assert ours == recording["labels"]


def recorded_gpu(number: int, recorded: Mapping[str, Any]) -> Gpu:
    devices = tuple(
        MigInstance(None, profile, 1, 0, mebibytes * MIB, *attributes)
        for profile, mebibytes, *attributes in recorded["devices"]
    )
    mode = None if recorded["mig"] is None else Mig(recorded["mig"], recorded["mig"], devices)
    memory = recorded["mebibytes"] * MIB or None
    gpu = Gpu(None, f"GPU-{number}", "nvidia", recorded["model"], memory, None, "nvidia", mode, None, None)
    return gpu._replace(compute_capability=recorded["capability"])
