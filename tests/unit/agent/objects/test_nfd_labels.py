"""Labels by the configuration of NFD's worker: which sources, devices, flags and kernel options have labels."""

from __future__ import annotations

import pytest

from support.machines import gpu_server
from zonewise.machine.model.cpu import Model
from zonewise.machine.model.host import Kernel, UsbDevice
from zonewise.machine.model.machine import Machine
from zonewise.nfd.types import LocalFeatures, LocalLabel
from zonewise.nfd.worker_config import LABEL_SOURCES, WorkerConfig, parse_worker_config
from zonewise.objects.features import node_features
from zonewise.objects.labels import LabelConfig, build_labels, machine_to_labels

NONE: set[str] = set()
CPU = Machine(architecture="x86_64", model=Model(flags=("avx2", "sse", "aes")))
KERNEL = Machine(kernel=Kernel("6.1.0", config={"PREEMPT": "y"}, config_lines="PREEMPT=y\nX86=y\nHZ=250\nDMI=m"))
LOCAL = LocalFeatures({"rack": "r7"}, {"rack": LocalLabel("r7", "/f:1"), "a.b/c": LocalLabel("d", "/f:2")})


def labels_of(machine: Machine, content: str, prefix: str, local: LocalFeatures | None = None) -> dict[str, str]:
    config, problems = parse_worker_config(content.encode())
    assert problems == ()
    labels = machine_to_labels(machine, local or LocalFeatures(), LabelConfig(worker=config))
    start = f"feature.node.kubernetes.io/{prefix}"
    return {name.removeprefix(start): value for name, value in labels.items() if name.startswith(start)}


@pytest.mark.parametrize(
    ("lists", "flags"),
    [
        ("", {"AESNI", "AVX2"}),
        ("attributeBlacklist: [AVX2]", {"AESNI", "FXSROPT", "SSE"}),
        ("attributeBlacklist: [AVX2], attributeWhitelist: [AVX2, SSE, NOSUCH]", {"AVX2", "SSE"}),
    ],
)
def test_cpuid(lists: str, flags: set[str]) -> None:
    """A whitelist overrides the blacklist; neither changes the raw feature."""
    content = f"sources: {{cpu: {{cpuid: {{{lists}}}}}}}"
    assert flags <= set(labels_of(CPU, content, "cpu-cpuid."))
    assert set(labels_of(CPU, content, "cpu-cpuid.")) <= flags | {"FXSROPT"}
    worker = parse_worker_config(content.encode())[0]
    assert node_features(CPU, worker=worker) == node_features(CPU)


def test_kernel_options() -> None:
    """Any option may have a label; it is then also a raw feature."""
    assert labels_of(KERNEL, "", "kernel-config.") == {"PREEMPT": "true"}
    content = "sources: {kernel: {configOpts: [X86, HZ, DMI, NOSUCH]}}"
    assert labels_of(KERNEL, content, "kernel-config.") == {"X86": "true", "HZ": "250", "DMI": "true"}
    worker = parse_worker_config(content.encode())[0]._replace(kernel_config={"HZ": "1000", "ABC": "y"})
    features = node_features(KERNEL, (), worker=worker)
    assert features.attributes["kernel.config"] == {"HZ": "1000"}
    everything = node_features(KERNEL, ("kernel.config",), worker=worker)
    assert everything.attributes["kernel.config"] == {"HZ": "1000", "ABC": "y"}


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ("deviceClassWhitelist: ['0302']", {"0302_10de.present"}),
        ("deviceClassWhitelist: ['0302'], deviceLabelFields: [device, vendor]", {"10de_2330.present"}),
        ("deviceClassWhitelist: ['0302'], deviceLabelFields: [class]", {"0302.present"}),
        ("deviceClassWhitelist: []", NONE),
    ],
)
def test_pci(config: str, names: set[str]) -> None:
    assert set(labels_of(gpu_server(), f"sources: {{pci: {{{config}}}}}", "pci-")) == names


def test_usb() -> None:
    """The prefix of a class selects devices, in upper or lower case."""
    machine = Machine(usb=(UsbDevice("1-1", "1d6b", "0002", ("09",)), UsbDevice("1-2", "046d", "082d", ("0e", "01"))))
    assert set(labels_of(machine, "", "usb-")) == {"0e_046d_082d.present"}
    content = "sources: {usb: {deviceClassWhitelist: ['0'], deviceLabelFields: [vendor, class]}}"
    assert set(labels_of(machine, content, "usb-")) == {"09_1d6b.present", "0e_046d.present", "01_046d.present"}


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("core: {labelSources: [kernel]}", {"kernel-config.PREEMPT", "kernel-version.full"}),
        ("core: {labelSources: [local]}", {"rack"}),
        ("core: {featureSources: [kernel], labelSources: [all]}", {"kernel-config.PREEMPT", "kernel-version.full"}),
        ("core: {labelSources: [all, -kernel]}", {"rack"}),
        ("core: {labelWhiteList: 'full|^rack$'}", {"kernel-version.full", "rack"}),
        ("core: {labelSources: []}", NONE),
    ],
)
def test_sources_and_white_list(content: str, names: set[str]) -> None:
    """The worker's configuration does not affect labels of GPUs and of zonewise itself."""
    labels = labels_of(KERNEL, content, "", LOCAL)
    assert {name for name in labels if not name.startswith("kernel-version.") or name.endswith("full")} == names
    own = machine_to_labels(gpu_server(), config=LabelConfig(worker=WorkerConfig(label_sources=frozenset())))
    assert {name.partition("/")[0] for name in own} == {"nvidia.com", "zonewise.dev"}


def test_a_disabled_feature_source() -> None:
    """Its raw features and labels are absent; features that NFD lacks remain."""
    worker = WorkerConfig(feature_sources=frozenset({"cpu"}))
    features = node_features(gpu_server(), ("network.pods",), LOCAL, worker)
    names = {*features.flags, *features.attributes, *features.instances}
    assert {name.partition(".")[0] for name in names} == {"cpu", "rdma"}
    labels = build_labels(gpu_server(), features, LOCAL, LabelConfig(worker=worker)).values
    assert not any("rack" in name or "/pci-" in name for name in labels)
    assert worker.label_sources == LABEL_SOURCES
