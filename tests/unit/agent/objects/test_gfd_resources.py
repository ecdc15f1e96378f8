"""Labels of whole GPUs and MIG devices: every strategy and sharing, by the rules of GPU Feature Discovery.

If GFD has its own tests, the expected values are theirs (internal/lm/resource_test.go, mig-strategy_test.go).
"""

from __future__ import annotations

from typing import Any

import pytest

from support.machines import MIB, gpu_server
from zonewise.gfd.types import DevicePluginConfig
from zonewise.machine.model.gpu import Gpu, Mig, MigInstance
from zonewise.objects.gfd_resources import resource_labels

SMALL = MigInstance("MIG-1", "1g.10gb", 7, 0, 9984 * MIB, 16, 1, 1, 1, 1, 0, 1, 0)
MEDIA = SMALL._replace(uuid="MIG-2", profile="1g.10gb+me")
WHOLE = gpu_server().gpus[0]._replace(model="MOCKMODEL", memory=300 * MIB, compute_capability="8.0")
PLAIN = WHOLE._replace(mig=Mig(False, False))


def split(*instances: MigInstance) -> Gpu:
    return WHOLE._replace(mig=Mig(True, True, instances))


def labels_of(gpus: list[Gpu], **config: Any) -> dict[str, str]:
    return {
        name.removeprefix("nvidia.com/"): value
        for name, value in resource_labels(gpus, DevicePluginConfig(**config)).items()
    }


def resource(labels: dict[str, str], name: str) -> tuple[str | None, ...]:
    return tuple(labels.get(f"{name}.{part}") for part in ("product", "count", "replicas", "sharing-strategy"))


@pytest.mark.parametrize(
    ("sharing", "replicas", "renamed", "product", "count", "strategy", "capable"),
    [
        ("none", {}, False, "MOCKMODEL", "1", "none", "false"),
        ("time-slicing", {"nvidia.com/gpu": 2}, False, "MOCKMODEL-SHARED", "2", "time-slicing", "false"),
        ("time-slicing", {"nvidia.com/gpu": 2}, True, "MOCKMODEL", "2", "time-slicing", "false"),
        ("time-slicing", {"nvidia.com/mig-1g.10gb": 2}, False, "MOCKMODEL", "1", "none", "false"),
        ("mps", {"nvidia.com/gpu": 10}, False, "MOCKMODEL-SHARED", "10", "mps", "true"),
        ("mps", {"nvidia.com/mig-1g.10gb": 10}, False, "MOCKMODEL", "1", "none", "true"),
    ],
)
def test_sharing_of_whole_gpus(
    sharing: str, replicas: dict[str, int], renamed: bool, product: str, count: str, strategy: str, capable: str
) -> None:
    labels = labels_of([PLAIN, PLAIN], mig_strategy="none", sharing=sharing, replicas=replicas, renamed=renamed)
    assert resource(labels, "gpu") == (product, "2", count, strategy)
    assert (labels["mps.capable"], labels["mig.capable"], "mig.strategy" in labels) == (capable, "true", False)


@pytest.mark.parametrize(
    ("strategy", "gpu", "mig", "label"),
    [
        ("none", ("MOCKMODEL", "1", "0", "none"), (None, None, None, None), None),
        ("single", ("MOCKMODEL-MIG-1g.10gb-SHARED", "2", "3", "time-slicing"), (None, None, None, None), "single"),
        ("mixed", ("MOCKMODEL", "1", "0", "none"), ("MOCKMODEL-MIG-1g.10gb-SHARED", "2", "4", "time-slicing"), "mixed"),
        (None, ("MOCKMODEL", "1", "0", "none"), ("MOCKMODEL-MIG-1g.10gb-SHARED", "2", "4", "time-slicing"), None),
    ],
)
def test_mig_strategies(strategy: str | None, gpu: tuple[str, ...], mig: tuple[str, ...], label: str | None) -> None:
    """A GPU in MIG mode has no replicas itself; without a configuration, its devices still have labels."""
    replicas = {"nvidia.com/gpu": 3, "nvidia.com/mig-1g.10gb": 4}
    labels = labels_of([split(SMALL, SMALL)], mig_strategy=strategy, sharing="time-slicing", replicas=replicas)
    assert resource(labels, "gpu") == gpu
    assert resource(labels, "mig-1g.10gb") == mig
    assert labels.get("mig.strategy") == label
    # the family is the GPU's, the sizes are the device's
    assert (labels["gpu.family"], labels["gpu.memory"]) == ("ampere", "9984" if strategy == "single" else "300")
    assert labels.get("gpu.multiprocessors") == ("16" if strategy == "single" else None)


@pytest.mark.parametrize(
    "gpus",
    [[split(SMALL), PLAIN], [split(SMALL), split()], [split(SMALL, MEDIA)], [split(SMALL), split(MEDIA)]],
    ids=["one is whole", "one is empty", "two profiles", "two profiles on two GPUs"],
)
def test_single_needs_equal_devices(gpus: list[Gpu]) -> None:
    """Otherwise, the product is invalid, and nothing can be requested (newInvalidMigStrategyLabeler)."""
    labels = labels_of(gpus, mig_strategy="single", sharing="time-slicing", replicas={"nvidia.com/gpu": 2})
    assert resource(labels, "gpu") == ("MOCKMODEL-MIG-INVALID", "0", "0", "")
    assert (labels["gpu.memory"], labels["gpu.family"], labels["mig.strategy"]) == ("0", "ampere", "single")


def test_single_without_mig_mode() -> None:
    """The labels are those of the strategy none, except the label of the strategy itself."""
    labels = labels_of([PLAIN], mig_strategy="single")
    assert labels == labels_of([PLAIN], mig_strategy="none") | {"mig.strategy": "single"}


def test_mixed_ignores_empty_gpus() -> None:
    """In names and products, profiles with attributes have a dot in place of the plus sign."""
    labels = labels_of([split(SMALL, MEDIA), split(), PLAIN], mig_strategy="mixed")
    assert resource(labels, "gpu") == ("MOCKMODEL", "3", "1", "none")
    assert resource(labels, "mig-1g.10gb") == ("MOCKMODEL-MIG-1g.10gb", "1", "1", "none")
    assert resource(labels, "mig-1g.10gb.me") == ("MOCKMODEL-MIG-1g.10gb.me", "1", "1", "none")


def test_mps_and_mig() -> None:
    """The device plugin does not offer MPS on such a node."""
    labels = labels_of([split(SMALL), PLAIN], mig_strategy="mixed", sharing="mps", replicas={"nvidia.com/gpu": 2})
    assert labels["mps.capable"] == "false"


def test_an_unknown_size_of_a_mig_device() -> None:
    """The size is absent, rather than that of the GPU."""
    labels = labels_of([split(SMALL._replace(memory=None))], mig_strategy="single")
    assert "gpu.memory" not in labels
