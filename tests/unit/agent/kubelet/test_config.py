"""The fields of a kubelet's configuration: defaults, errors that name field and value, and recorded configurations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.snapshots import PROJECT
from zonewise.kubelet.config import KubeletConfigError, parse_config
from zonewise.kubelet.types import KubeletConfig
from zonewise_common.k8s.cpuset import CpuSet

TRACES = PROJECT.parent / "shared" / "cases" / "kubelet_traces.json"


def parsed(**fields: Any) -> KubeletConfig:
    return parse_config(fields, origin="config.yaml")


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"cpuManagerPolicy": "", "topologyManagerScope": None, "reservedSystemCPUs": "", "reservedMemory": None},
        {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "somethingNew": {"a": 1}},
    ],
)
def test_absent_fields_have_the_kubelets_defaults(document: dict[str, Any]) -> None:
    """Null and the empty string count as absent; unknown fields are ignored."""
    assert parse_config(document, origin="x") == KubeletConfig()
    assert KubeletConfig().max_allowable_numa_nodes() == 8


def test_every_field() -> None:
    """All fields are read together, and sorted if their type is sorted."""
    config = parsed(
        cpuManagerPolicy="static",
        cpuManagerPolicyOptions={"strict-cpu-reservation": "1", "full-pcpus-only": "True"},
        memoryManagerPolicy="Static",
        topologyManagerPolicy="single-numa-node",
        topologyManagerScope="pod",
        topologyManagerPolicyOptions={"prefer-closest-numa-nodes": "f", "max-allowable-numa-nodes": "16"},
        systemReserved={"cpu": "500m", "memory": "1Gi"},
        kubeReserved={"cpu": "1.5", "pid": "1000"},
        reservedMemory=[
            {"numaNode": 1, "limits": {"memory": "1Gi"}},
            {"numaNode": 0, "limits": {"memory": 1024, "hugepages-1Gi": "2Gi"}},
        ],
        featureGates={"PodsAPI": True, "CPUManagerPolicyAlphaOptions": False},
    )
    assert config == KubeletConfig(
        cpu_manager_policy="static",
        cpu_manager_options=(("full-pcpus-only", "true"), ("strict-cpu-reservation", "true")),
        memory_manager_policy="Static",
        topology_manager_policy="single-numa-node",
        topology_manager_scope="pod",
        topology_manager_options=(("max-allowable-numa-nodes", "16"), ("prefer-closest-numa-nodes", "false")),
        reserved_cpus=None,
        reserved_milli_cpus=2000,
        reserved_memory=((0, "hugepages-1Gi", 2 << 30), (0, "memory", 1024), (1, "memory", 1 << 30)),
        feature_gates=(("CPUManagerPolicyAlphaOptions", False), ("PodsAPI", True)),
    )
    assert config.max_allowable_numa_nodes() == 16


def test_a_list_of_reserved_cpus_replaces_reserved_time() -> None:
    config = parsed(reservedSystemCPUs="0,16-17", systemReserved={"cpu": "7"}, kubeReserved={"cpu": "7"})
    assert (config.reserved_cpus, config.reserved_milli_cpus) == (CpuSet([0, 16, 17]), 3000)


def test_options_of_a_policy_that_is_none_are_not_read() -> None:
    """The kubelet starts with an invalid option if the policy is none, so the agent must accept it."""
    assert parsed(topologyManagerPolicyOptions={"max-allowable-numa-nodes": "x"}).topology_manager_options == ()


@pytest.mark.parametrize(
    ("document", "field", "value"),
    [
        ({"cpuManagerPolicy": "dynamic"}, "cpuManagerPolicy", "'dynamic'"),
        ({"cpuManagerPolicy": False}, "cpuManagerPolicy", "False"),
        ({"memoryManagerPolicy": "static"}, "memoryManagerPolicy", "'static'"),
        ({"topologyManagerPolicy": "single"}, "topologyManagerPolicy", "'single'"),
        ({"topologyManagerScope": ["pod"]}, "topologyManagerScope", "['pod']"),
        ({"reservedSystemCPUs": "0-"}, "reservedSystemCPUs", "'0-'"),
        ({"reservedSystemCPUs": 0}, "reservedSystemCPUs", "0"),
        ({"systemReserved": {"cpu": "1 CPU"}}, "systemReserved.cpu", "'1 CPU'"),
        ({"kubeReserved": {"cpu": "-1"}}, "kubeReserved.cpu", "'-1'"),
        ({"kubeReserved": {"cpu": True}}, "kubeReserved.cpu", "True"),
        ({"kubeReserved": "cpu=1"}, "kubeReserved", "'cpu=1'"),
        ({"reservedMemory": {"numaNode": 0}}, "reservedMemory", "{'numaNode': 0}"),
        ({"reservedMemory": [7]}, "reservedMemory[0]", "7"),
        ({"reservedMemory": [{"numaNode": "0", "limits": None}]}, "reservedMemory[0].numaNode", "'0'"),
        ({"reservedMemory": [{"limits": {"memory": "1GB"}}]}, "reservedMemory[0].limits.memory", "'1GB'"),
        ({"reservedMemory": [{"limits": {"memory": 1}}, {"limits": {"memory": 2}}]},
         "reservedMemory[1].limits.memory", "2"),
        ({"featureGates": {"PodsAPI": "true"}}, "featureGates.PodsAPI", "'true'"),
        ({"cpuManagerPolicyOptions": {"full-pcpus-only": True}}, "cpuManagerPolicyOptions.full-pcpus-only", "True"),
        ({"cpuManagerPolicyOptions": {"full-pcpus-only": "yes"}}, "cpuManagerPolicyOptions.full-pcpus-only", "'yes'"),
        ({"topologyManagerPolicy": "restricted", "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "4"}},
         "topologyManagerPolicyOptions.max-allowable-numa-nodes", "'4'"),
    ],
)  # fmt: skip
def test_invalid_values_are_rejected_by_field_and_value(document: Any, field: str, value: str) -> None:
    with pytest.raises(KubeletConfigError) as caught:
        parse_config(document, origin="config.yaml")
    assert str(caught.value).startswith(f"config.yaml: {field}: {value}: ")


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(KubeletConfigError, match=r"cpuManagerPolicy: 'x': .*; reservedSystemCPUs: 'y': "):
        parsed(cpuManagerPolicy="x", reservedSystemCPUs="y")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    "cpuManagerPolicy", "cpuManagerPolicyOptions", "memoryManagerPolicy", "topologyManagerPolicy", "reservedMemory",
    "topologyManagerScope", "topologyManagerPolicyOptions", "reservedSystemCPUs", "systemReserved", "featureGates",
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_any_document_is_a_configuration_or_an_error(document: dict[str, Any]) -> None:
    """Any document is either a usable configuration or a one-line error."""
    try:
        assert parse_config(document, origin="x").max_allowable_numa_nodes() >= 8
    except KubeletConfigError as error:
        assert str(error).startswith("x: ")  # noqa: PT017 -- most documents are none


@pytest.mark.skipif(not TRACES.exists(), reason=f"{TRACES.name} is not beside the project")
def test_the_configurations_of_real_kubelets() -> None:
    """Every trace is read, and matches what its kubelet then did."""
    for trace in json.loads(TRACES.read_text()):
        fields = trace["kubelet_config"]
        config = parse_config(fields, origin=trace["name"])
        assert config.topology_manager_policy == fields["topologyManagerPolicy"]
        assert str(config.reserved_cpus) == fields["reservedSystemCPUs"]
        assert config.reserved_memory[0] == (0, "memory", 512 << 20)
