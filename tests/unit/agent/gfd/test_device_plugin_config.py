"""The configuration of NVIDIA's device plugin: the agent accepts and rejects what the plugin's own parser does."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.gfd.device_plugin_config import DevicePluginConfigError, parse_device_plugin_config
from zonewise.gfd.types import MIG_STRATEGIES, MPS, TIME_SLICING, DevicePluginConfig

TIME_SLICED = """
version: v1
flags:
  migStrategy: mixed
sharing:
  timeSlicing:
    resources:
      - {name: nvidia.com/gpu, replicas: 4}
      - {name: mig-1g.10gb, replicas: 2, devices: [0, "1:0"], rename: nvidia.com/other}
      - {name: nvidia.com/gpu, replicas: 9}
"""
BOTH = """
sharing:
  mps: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 10}]}
  timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}
"""


@pytest.mark.parametrize(
    ("content", "config"),
    [
        ("", DevicePluginConfig("none")),
        ("version: v1\nflags: {migStrategy: single}", DevicePluginConfig("single")),
        ('{"version": "v1", "Flags": {"MIGSTRATEGY": "mixed"}}', DevicePluginConfig("mixed")),
        ("flags: {migStrategy: null, failOnInitError: true}\nresources: {gpus: []}", DevicePluginConfig("none")),
        # only the first entry of a resource counts; names other than the default one, and devices, are ignored
        (TIME_SLICED, DevicePluginConfig("mixed", TIME_SLICING, {"nvidia.com/gpu": 4, "nvidia.com/mig-1g.10gb": 2})),
        (BOTH, DevicePluginConfig("none", MPS, {"nvidia.com/gpu": 10}, renamed=True)),
        ("sharing: {mps: null}", DevicePluginConfig("none")),
    ],
)
def test_accepted(content: str, config: DevicePluginConfig) -> None:
    """YAML and JSON are accepted, and field names of any case outside lists of resources; MPS precedes time slicing."""
    assert parse_device_plugin_config(content.encode()) == config


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "is no YAML"),
        ("[" * 1000, "is no YAML"),
        ("- 1", "the file: must be a mapping, not list"),
        ("version: v2", "version: 'v2' is not supported; only v1 is"),
        (
            "flags: {deviceDiscoveryStrategy: ''}",
            "flags.deviceDiscoveryStrategy: '' is not one of auto, nvml, tegra, vfio",
        ),
        ("flags: {migStrategy: ''}", "flags.migStrategy: '' is not one of none, single, mixed"),
        ("flags: {migStrategy: double}", "flags.migStrategy: 'double' is not one of none, single, mixed"),
        ("sharing: {timeSlicing: {}}", "sharing.timeSlicing.resources: must be a list with at least one resource"),
        ("sharing: {mps: {resources: []}}", "sharing.mps.resources: must be a list with at least one resource"),
        ("sharing: {mps: {resources: [{replicas: 2}]}}", "sharing.mps.resources[0].name: None must be a resource name"),
        (
            "sharing: {mps: {resources: [{name: gpu}]}}",
            "sharing.mps.resources[0].replicas: None must be",
        ),
        ("sharing: {mps: {resources: [{name: gpu, replicas: 1}]}}", "resources[0].replicas: 1 must be a whole number"),
        ("sharing: {mps: {resources: [{name: gpu, replicas: true}]}}", "replicas: True must be a whole number"),
        ("sharing: {mps: {resources: [{name: a_b, replicas: 2}]}}", "name: 'a_b' is not a resource name"),
        ("sharing: {mps: {resources: [{name: gpu, replicas: 2, rename: A}]}}", "rename: 'A' is not a resource name"),
        ("sharing: {mps: {renameByDefault: 1, resources: []}}", "sharing.mps.renameByDefault: 1 must be true or false"),
        ("sharing: {mps: {failRequestsGreaterThanOne: 'a'}}", "failRequestsGreaterThanOne: 'a' must be true or false"),
        # time slicing is validated although MPS takes precedence
        (BOTH.replace("replicas: 4", "replicas: 1"), "sharing.timeSlicing.resources[0].replicas: 1"),
    ],
)
def test_rejected(content: str, message: str) -> None:
    """The message contains the field, its value and the valid values."""
    with pytest.raises(DevicePluginConfigError) as error:
        parse_device_plugin_config(content.encode())
    assert message in str(error.value)


UUID = "b1028956-cfa2-0990-bf4a-5da9abb51763"


@pytest.mark.parametrize(
    ("devices", "valid"),
    [
        ("all", True),
        ("1", True),
        ("[]", True),
        (f"[0, '3', '1:0', GPU-{UUID}, MIG-{UUID}, MIG-GPU-{UUID}/3/0]", True),
        ("''", False),
        ("some", False),
        ("0", False),
        ("true", False),
        ("null", False),
        ("1.5", False),
        ("[-1]", False),
        ("['1:']", False),
        ("[GPU-1]", False),
        (f"[MIG-GPU-{UUID}/3]", False),
        (f"[{UUID}]", False),
    ],
)
def test_the_selection_of_devices_is_ignored_but_validated(devices: str, valid: bool) -> None:
    content = f"sharing: {{mps: {{resources: [{{name: gpu, replicas: 2, devices: {devices}}}]}}}}".encode()
    if valid:
        assert parse_device_plugin_config(content).replicas == {"nvidia.com/gpu": 2}
    else:
        with pytest.raises(DevicePluginConfigError, match=r"resources\[0\]\.devices"):
            parse_device_plugin_config(content)


def test_absent_and_null_flags_are_false() -> None:
    flags = "renameByDefault: null, failRequestsGreaterThanOne: null"
    content = f"sharing: {{mps: {{{flags}, resources: [{{name: gpu, replicas: 2}}]}}}}".encode()
    assert not parse_device_plugin_config(content).renamed


@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    """Any content is either a configuration or an error."""
    with contextlib.suppress(DevicePluginConfigError):
        assert parse_device_plugin_config(content).mig_strategy in MIG_STRATEGIES
