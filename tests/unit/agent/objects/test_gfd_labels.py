"""The labels of GPU Feature Discovery, by name and value."""

from __future__ import annotations

import pytest

from support.machines import MIB, gpu_server, grace_blackwell, hybrid
from zonewise.gfd.types import DevicePluginConfig
from zonewise.machine.model.gpu import Mig, MigInstance
from zonewise.machine.model.host import Firmware
from zonewise.machine.model.machine import Machine
from zonewise.objects.labels import LabelConfig, machine_to_labels

PREFIX = "nvidia.com/"
SOURCE_FAMILIES = """
    1.0-1.9 tesla  2.0-2.9 fermi  3.0-3.9 kepler  5.0-5.9 maxwell  6.0-6.9 pascal  7.0-7.4 volta  7.5-7.9 turing
    8.0-8.8 ampere  8.9-8.9 ada-lovelace  9.0-9.9 hopper  10.0-10.9 blackwell  12.0-12.9 blackwell  13.0-13.9 rubin
"""
"""The table of k8s-device-plugin, internal/lm/resource.go getArchFamily, at commit 1b826acc."""


def gfd(machine: Machine) -> dict[str, str]:
    labels = machine_to_labels(machine)
    return {name.removeprefix(PREFIX): value for name, value in labels.items() if name.startswith(PREFIX)}


def test_gpus_as_gfd_describes_them() -> None:
    """Eight equal GPUs have exactly the labels of GPU Feature Discovery."""
    machine = gpu_server()._replace(firmware=Firmware(product="SYS-821GE-TNHR (rev 2)"))
    assert gfd(machine) == {
        "cuda.driver-version.full": "550.90.07",
        "cuda.driver-version.major": "550",
        "cuda.driver-version.minor": "90",
        "cuda.driver-version.revision": "07",
        "cuda.driver.major": "550",
        "cuda.driver.minor": "90",
        "cuda.driver.rev": "07",
        "cuda.runtime-version.full": "12.4",
        "cuda.runtime-version.major": "12",
        "cuda.runtime-version.minor": "4",
        "cuda.runtime.major": "12",
        "cuda.runtime.minor": "4",
        "gpu.compute.major": "9",
        "gpu.compute.minor": "0",
        "gpu.count": "8",
        "gpu.family": "hopper",
        "gpu.machine": "SYS-821GE-TNHR-rev-2",
        "gpu.memory": "81559",
        "gpu.mode": "compute",
        "gpu.product": "NVIDIA-H100-80GB-HBM3",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "mig.capable": "true",
        "mps.capable": "false",
    }


def test_no_gpu_in_nvml() -> None:
    """Without the driver, GFD has no labels, since the values are unknown."""
    gpus = tuple(gpu._replace(uuid=None) for gpu in gpu_server().gpus)
    assert gfd(gpu_server()._replace(gpus=gpus)) == {}
    assert gfd(hybrid()) == {}


@pytest.mark.parametrize("state", ["lost", "excluded", "hidden"])
def test_a_gpu_that_nvml_does_not_list(state: str) -> None:
    """The labels are those of the other GPUs: the driver's files have neither memory nor versions."""
    *usable, last = gpu_server().gpus
    unlisted = last._replace(
        state=state, number=None, memory=None, mig=None, cuda_version=None, compute_capability=None
    )
    labels = gfd(gpu_server()._replace(gpus=(*usable, unlisted)))
    assert labels == gfd(gpu_server()) | {"gpu.count": "7"}


@pytest.mark.parametrize("model", ["DGX Display", "NVIDIA DGX Display"])
def test_the_display_adapter_of_a_dgx_station(model: str) -> None:
    """GFD and the device plugin ignore it; without another GPU there are no labels."""
    *others, last = gpu_server().gpus
    display = last._replace(model=model, memory=4096 * MIB, compute_capability="7.5", mig=None)
    assert gfd(gpu_server()._replace(gpus=(*others, display))) == gfd(gpu_server()) | {"gpu.count": "7"}
    assert gfd(Machine(gpus=(display,))) == {}


def test_unknown_sharing() -> None:
    """If the device plugin's configuration is unknown, there are no GFD labels: GFD itself would not start."""
    plain = machine_to_labels(gpu_server())
    labels = machine_to_labels(gpu_server(), config=LabelConfig(None))
    assert labels == {name: value for name, value in plain.items() if not name.startswith("nvidia.com/")}


def test_a_machine_without_a_name() -> None:
    """The value is "unknown", as in GFD."""
    assert gfd(gpu_server()._replace(firmware=Firmware()))["gpu.machine"] == "unknown"


def test_the_type_of_the_machine_from_a_file() -> None:
    for content, label in (("DGX H100", "DGX-H100"), ("", "unknown")):
        config = LabelConfig(DevicePluginConfig(machine_type=content))
        assert machine_to_labels(gpu_server(), config=config)["nvidia.com/gpu.machine"] == label


def test_two_models_on_a_node() -> None:
    """Different values have no label, rather than an arbitrary one; common values have one."""
    first, *rest = gpu_server().gpus
    labels = gfd(gpu_server()._replace(gpus=(first._replace(model="NVIDIA L4", memory=24 << 30), *rest)))
    assert labels["gpu.count"] == "8"
    assert labels["cuda.runtime-version.full"] == "12.4"
    assert not {"gpu.product", "gpu.memory"} & set(labels)


@pytest.mark.parametrize(
    ("capability", "family"),
    [("7.0", "volta"), ("7.5", "turing"), ("8.0", "ampere"), ("8.9", "ada-lovelace"), ("9.0", "hopper"),
     ("10.0", "blackwell"), ("12.0", "blackwell"), ("13.0", "rubin"), ("99.0", "undefined")],
)  # fmt: skip
def test_families(capability: str, family: str) -> None:
    """The family follows from the compute capability."""
    gpu = gpu_server().gpus[0]._replace(compute_capability=capability)
    assert gfd(Machine(gpus=(gpu,)))["gpu.family"] == family


def test_families_match_the_source_of_gfd() -> None:
    """All compute capabilities up to 15.9 are compared. If one begins with 0, GFD has no such labels."""
    words = iter(SOURCE_FAMILIES.split())
    expected: dict[str, str] = {}
    for interval, family in zip(words, words, strict=True):
        (major, first), (_, last) = (end.split(".") for end in interval.split("-"))
        expected |= {f"{major}.{minor}": family for minor in range(int(first), int(last) + 1)}
    for capability in (f"{major}.{minor}" for major in range(16) for minor in range(10)):
        gpu = gpu_server().gpus[0]._replace(compute_capability=capability)
        labels = gfd(Machine(gpus=(gpu,)))
        major, minor = capability.split(".")
        described = {name: labels.get(f"gpu.{name}") for name in ("family", "compute.major", "compute.minor")}
        if major == "0":
            assert described == dict.fromkeys(described)
        else:
            family = expected.get(capability, "undefined")
            assert described == {"family": family, "compute.major": major, "compute.minor": minor}


def test_a_driver_version_of_two_parts() -> None:
    """As in GFD, the label of its revision is empty."""
    gpu = gpu_server().gpus[0]._replace(driver_version="570.86")
    assert gfd(Machine(gpus=(gpu,)))["cuda.driver-version.revision"] == ""


@pytest.mark.parametrize(
    ("virtualization", "label"), [("vgpu", "true"), ("none", "false"), ("passthrough", "false"), (None, None)]
)
def test_vgpu(virtualization: str | None, label: str | None) -> None:
    """The label is false only if the driver reports that the GPU is not virtual."""
    gpu = gpu_server().gpus[0]._replace(virtualization=virtualization)
    assert gfd(Machine(gpus=(gpu,))).get("vgpu.present") == label


def test_mig_instances_by_profile() -> None:
    """Each profile has its count, product and sizes under the name of the device plugin's resource."""
    small = MigInstance("MIG-1", "1g.10gb", 7, 0, 9984 * MIB, 16, 1, 1, 1, 1, 0, 1, 0)
    media = small._replace(uuid="MIG-2", profile="1g.10gb+me")
    gpu = gpu_server().gpus[0]._replace(mig=Mig(True, True, (small, small._replace(uuid="MIG-3"), media)))
    labels = gfd(Machine(gpus=(gpu,)))
    assert labels["mig-1g.10gb.count"] == "2"
    assert labels["mig-1g.10gb.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    assert labels["mig-1g.10gb.memory"] == "9984"
    assert labels["mig-1g.10gb.engines.jpeg"] == "1"
    assert labels["mig-1g.10gb.me.count"] == "1"
    assert (labels["mig-1g.10gb.replicas"], labels["mig-1g.10gb.sharing-strategy"]) == ("1", "none")


@pytest.mark.parametrize(("modes", "replicas"), [((True, True), "0"), ((True, False), "1"), ((False, False), "1")])
def test_gpus_in_mig_mode_have_no_replicas(modes: tuple[bool, ...], replicas: str) -> None:
    """A node with every GPU in MIG mode has no whole GPU to allocate, hence no replica."""
    first = gpu_server().gpus[0]
    gpus = tuple(first._replace(mig=Mig(enabled, enabled)) for enabled in modes)
    assert gfd(Machine(gpus=gpus))["gpu.replicas"] == replicas


def test_clique() -> None:
    """A node in an NVLink domain has a label with cluster and clique; other nodes do not."""
    assert gfd(grace_blackwell())["gpu.clique"] == "3f8a1c5e-0000-4000-8000-000000000001.1"
    assert "gpu.clique" not in gfd(gpu_server())


def test_gpus_of_two_cliques() -> None:
    """GPUs in different cliques have no clique label."""
    first, *rest = grace_blackwell().gpus
    assert first.fabric is not None
    second = first._replace(fabric=first.fabric._replace(clique=2))
    assert "gpu.clique" not in gfd(grace_blackwell()._replace(gpus=(second, *rest)))
