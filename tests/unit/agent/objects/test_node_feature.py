"""The NodeFeature object."""

from __future__ import annotations

from zonewise.objects.features import Features
from zonewise.objects.node_feature import NODE_NAME, node_feature, object_name
from zonewise_common.kube.resources import NODE_FEATURES

FEATURES = Features({"cpu.cpuid": ("AVX",)}, {"cpu.model": {"id": "1"}}, {"pci.device": ({"class": "0302"},)})


def test_the_object() -> None:
    """It has the three kinds of features and the labels."""
    obj = node_feature("node-7", {"a/b": "c"}, FEATURES)
    assert (obj["apiVersion"], obj["kind"]) == (NODE_FEATURES.api_version, NODE_FEATURES.kind)
    assert obj["metadata"] == {"name": "zonewise-node-7", "labels": {NODE_NAME: "node-7"}}
    assert obj["spec"] == {
        "features": {
            "flags": {"cpu.cpuid": {"elements": {"AVX": {}}}},
            "attributes": {"cpu.model": {"elements": {"id": "1"}}},
            "instances": {"pci.device": {"elements": [{"attributes": {"class": "0302"}}]}},
        },
        "labels": {"a/b": "c"},
    }


def test_its_namespace_and_owners() -> None:
    """It has a namespace and owners."""
    owner = {"kind": "Pod", "name": "agent", "uid": "1"}
    metadata = node_feature("node-7", {}, FEATURES, namespace="zonewise", owners=[owner])["metadata"]
    assert (metadata["namespace"], metadata["ownerReferences"]) == ("zonewise", [owner])


def test_long_names() -> None:
    """A name that is too long for an object is replaced by a hash, which differs for each node."""
    names = {object_name(f"{'n' * 250}-{number}") for number in range(3)}
    assert len(names) == 3
    assert all(len(name) <= 253 for name in names)
