"""The CRD of NodeResourceTopology equals the public one, in both versions."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from support.crd import NODE_RESOURCE_TOPOLOGY, QUANTITY
from support.manifests import MANIFESTS, Object


def crd() -> Object:
    return yaml.safe_load((MANIFESTS / "base" / "noderesourcetopologies.yaml").read_text())


def structure(schema: Object) -> Any:
    """Return an OpenAPI schema in the form of support.crd."""
    if schema.get("x-kubernetes-int-or-string"):
        assert schema["anyOf"] == [{"type": "integer"}, {"type": "string"}]
        return {"type": (str, int)}
    if schema["type"] == "array":
        return {"type": list, "items": structure(schema["items"])}
    if schema["type"] == "object":
        fields = {name: structure(part) for name, part in schema.get("properties", {}).items()}
        return {"type": dict, "required": set(schema.get("required", ())), "fields": fields}
    return {"type": {"string": str, "integer": int}[schema["type"]]}


def comparable(schema: Any) -> Any:
    """Return a schema of support.crd without its patterns, which are compared by example."""
    made = {name: part for name, part in schema.items() if name != "pattern"}
    if "items" in made:
        made["items"] = comparable(made["items"])
    if "fields" in made:
        made["required"] = set(made["required"])
        made["fields"] = {name: comparable(part) for name, part in made["fields"].items()}
    return made


def test_the_schema_is_the_public_one() -> None:
    """Fields, types and required fields are those of the public v1alpha2; the API server defines metadata."""
    found = structure(version("v1alpha2")["schema"]["openAPIV3Schema"])
    expected = comparable(NODE_RESOURCE_TOPOLOGY)
    assert found["fields"].pop("metadata") == {"type": dict, "required": set(), "fields": {}}
    expected["fields"].pop("metadata")
    # the API server itself requires the fields that every object needs
    assert found.pop("required") == expected.pop("required") - {"apiVersion", "kind", "metadata"}
    assert found == expected


def version(name: str) -> Object:
    return next(one for one in crd()["spec"]["versions"] if one["name"] == name)


def test_the_versions() -> None:
    """Both versions are served, and the newer is stored; the older has no node attributes, and needs policies."""
    assert {one["name"]: (one["served"], one["storage"]) for one in crd()["spec"]["versions"]} == {
        "v1alpha1": (True, False),
        "v1alpha2": (True, True),
    }
    older, newer = (version(name)["schema"]["openAPIV3Schema"] for name in ("v1alpha1", "v1alpha2"))
    assert set(newer["properties"]) - set(older["properties"]) == {"attributes"}
    assert older["required"] == ["topologyPolicies", "zones"]
    assert older["properties"]["zones"] == newer["properties"]["zones"]
    assert crd()["spec"]["names"]["shortNames"] == ["node-res-topo"]
    assert crd()["spec"]["scope"] == "Cluster"


@pytest.mark.parametrize("text", ["0", "17179869184", "1.5", ".5", "-1", "+3", "12Mi", "1k", "100m", "1e3", "5E-2"])
def test_quantities(text: str) -> None:
    """The pattern accepts the same quantities as resource.Quantity."""
    assert re.search(quantity_pattern(), text)
    assert QUANTITY.fullmatch(text)


@pytest.mark.parametrize("text", ["", "1 Gi", "1GB", "0x10", "1e", "--1", "1.2.3", "Gi", "1\n2"])
def test_invalid_quantities(text: str) -> None:
    """The pattern rejects texts that are not quantities."""
    assert not re.search(quantity_pattern(), text)
    assert not QUANTITY.fullmatch(text)


def quantity_pattern() -> str:
    zones = version("v1alpha2")["schema"]["openAPIV3Schema"]["properties"]["zones"]["items"]["properties"]
    patterns = {part["pattern"] for part in zones["resources"]["items"]["properties"].values() if "pattern" in part}
    assert len(patterns) == 1
    return patterns.pop()
