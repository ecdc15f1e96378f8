"""nfd-worker.conf: each key is honoured or named as not honoured; a wrong type is an error, as in the worker."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.nfd.worker_config import (
    DEFAULT_WORKER_CONFIG,
    FEATURE_SOURCES,
    LABEL_SOURCES,
    PCI_FIELDS,
    DeviceLabels,
    WorkerConfigError,
    is_published,
    parse_worker_config,
)

NO_SOURCE: frozenset[str] = frozenset()
PCI, USB = DEFAULT_WORKER_CONFIG.pci, DEFAULT_WORKER_CONFIG.usb


@pytest.mark.parametrize(
    ("content", "changes"),
    [
        ("", {}),
        ("core:\nsources:\n", {}),
        ("core: {labelWhiteList: 'cpu.*'}", {"label_white_list": "cpu.*"}),
        ("core: {noPublish: true}", {"no_publish": True}),
        ("core: {noPublishFeatures: [pci.device, 'kernel.*']}", {"no_publish_features": ("pci.device", "kernel.*")}),
        ("core: {featureSources: [cpu, pci]}", {"feature_sources": frozenset({"cpu", "pci"})}),
        ("core: {featureSources: [all, -pci]}", {"feature_sources": FEATURE_SOURCES - {"pci"}}),
        ("core: {featureSources: [-pci, all]}", {}),
        ("core: {labelSources: []}", {"label_sources": NO_SOURCE}),
        ("core: {labelSources: [all, -custom]}", {"label_sources": LABEL_SOURCES - {"custom"}}),
        # the deprecated key overrides the other one, in either order
        ("core: {sources: [usb], labelSources: [cpu]}", {"label_sources": frozenset({"usb"})}),
        ("CORE: {LABELSOURCES: [cpu]}", {"label_sources": frozenset({"cpu"})}),
        ("sources: {cpu: {cpuid: {attributeBlacklist: [AVX]}}}", {"cpuid_blacklist": frozenset({"AVX"})}),
        ("sources: {cpu: {cpuid: {attributeBlacklist: []}}}", {"cpuid_blacklist": NO_SOURCE}),
        ("sources: {cpu: {cpuid: {attributeWhitelist: [AVX]}}}", {"cpuid_whitelist": frozenset({"AVX"})}),
        ("sources: {kernel: {configOpts: [X86, DMI]}}", {"kernel_options": ("X86", "DMI")}),
        ("sources: {kernel: {kconfigFile: /boot/c}}", {"kconfig_file": "/boot/c"}),
        ("sources: {pci: {deviceClassWhitelist: ['02', 0B]}}", {"pci": DeviceLabels(("02", "0b"), PCI.fields)}),
        ("sources: {custom: [{name: a}]}", {"custom_rules": ({"name": "a"},)}),
        # fields are in the order of the source code
        ("sources: {pci: {deviceLabelFields: [device, class]}}", {"pci": PCI._replace(fields=("class", "device"))}),
        ("sources: {pci: {deviceLabelFields: []}}", {}),
        ("sources: {usb: {deviceLabelFields: [class]}}", {"usb": USB._replace(fields=("class",))}),
        ('{"sources": {"usb": {"deviceClassWhitelist": []}}}', {"usb": USB._replace(classes=())}),
    ],
)
def test_honoured(content: str, changes: dict[str, Any]) -> None:
    assert parse_worker_config(content.encode()) == (DEFAULT_WORKER_CONFIG._replace(**changes), ())


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("core: {klog: {v: 3}}", "core.klog is ignored: the settings logLevel and logFormat decide"),
        ("core: {sleepInterval: 10s}", "core.sleepInterval is ignored: the setting interval decides"),
        ("core: {noOwnerRefs: true}", "core.noOwnerRefs is ignored: the agent's object belongs to its pod"),
        ("core: {ownerRefs: []}", "core.ownerRefs is ignored: the agent's object belongs to its pod"),
        ("core: {labelWhitelst: a}", "core.labelWhitelst is ignored: unknown key"),
        ("corr: {a: 1}", "corr is ignored: unknown key"),
        ("sources: {fake: {labels: {a: b}}}", "sources.fake is ignored: zonewise has no source of test data"),
        ("sources: {gpu: {a: 1}}", "sources.gpu is ignored: unknown key"),
        ("sources: {cpu: {cpuid: {list: []}}}", "sources.cpu.cpuid.list is ignored: unknown key"),
        (
            "core: {labelSources: [gpu]}",
            "core.labelSources: 'gpu' is ignored: the values are all, cpu, custom, kernel,",
        ),
        (
            "core: {featureSources: [custom]}",
            "core.featureSources: 'custom' is ignored: the values are all, cpu, kernel,",
        ),
        (
            "sources: {usb: {deviceLabelFields: [serial]}}",
            "sources.usb.deviceLabelFields: serial is ignored: the keys are",
        ),
    ],
)
def test_not_honoured(content: str, problem: str) -> None:
    """The key is named with the reason; the other keys apply."""
    _, problems = parse_worker_config(content.encode())
    assert len(problems) == 1
    assert problems[0].startswith(problem)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("core: [", "is no YAML"),
        ("core: !!bool x", "is no YAML"),
        ("[1]", "the file: must be a mapping, not '[1]'"),
        ("core: 5", "core: must be a mapping, not '5'"),
        ("core: {labelWhiteList: '('}", "core.labelWhiteList: '(' is not a regular expression"),
        ("core: {noPublish: 1}", "core.noPublish: '1' must be true or false"),
        ("core: {labelSources: cpu}", "core.labelSources: must be a list, not 'cpu'"),
        ("sources: {pci: {deviceClassWhitelist: [[]]}}", "sources.pci.deviceClassWhitelist[0]: [] must be a string"),
        ("sources: {kernel: {kconfigFile: {}}}", "sources.kernel.kconfigFile: {} must be a string"),
        ("sources: {custom: {}}", "sources.custom: must be a list, not '{}'"),
    ],
)
def test_rejected(content: str, message: str) -> None:
    with pytest.raises(WorkerConfigError) as error:
        parse_worker_config(content.encode())
    assert message in str(error.value)


@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    """Any content is either a configuration or an error."""
    with contextlib.suppress(WorkerConfigError):
        assert set(parse_worker_config(content)[0].pci.fields) <= set(PCI_FIELDS)


def test_published_features() -> None:
    """A pattern is an exact name, or a prefix that ends with an asterisk."""
    patterns = ("pci.device", "kernel.*")
    published = [
        name for name in ("pci.device", "pci.devices", "kernel.config", "cpu.model") if is_published(name, patterns)
    ]
    assert published == ["pci.devices", "cpu.model"]


def test_numbers_are_text() -> None:
    """A list of texts may contain numbers, as for the worker. A class that is a number is also a problem."""
    config, problems = parse_worker_config(
        b"core: {noPublishFeatures: [5, true]}\nsources: {pci: {deviceClassWhitelist: [12, 03, '03', null]}}"
    )
    assert config.no_publish_features == ("5", "true")
    assert config.pci.classes == ("12", "3", "03", "")
    path = "sources.pci.deviceClassWhitelist"
    assert problems == (
        f"{path}[0]: 12 counts as '12'; put it in quotes",
        f"{path}[1]: 3 counts as '3'; put it in quotes",
        f"{path}[3]: None counts as ''; put it in quotes",
    )
