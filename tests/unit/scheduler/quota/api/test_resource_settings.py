"""Which requests count against quotas: prefixes, transformations, and errors of the setting."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.nodes.devices.class_resource import DEVICE_CLASS
from zonewise_scheduler.quota.api.resource_settings import (
    ALL_RESOURCES,
    QuotaCheckStrategy,
    ResourceSettings,
    ResourceTransformation,
    Strategy,
    parse_resource_settings,
)

BLOCK: QuotaCheckStrategy = "BlockUndeclared"
REPLACE: Strategy = "Replace"
MIG = "nvidia.com/mig-1g.10gb"
NAMES = st.sampled_from(["cpu", "memory", "example.com/a", "example.com/b", "example.com/c"])
TRANSFORMATIONS = st.lists(
    st.builds(
        ResourceTransformation,
        NAMES,
        st.sampled_from(["Retain", "Replace"]),
        st.one_of(st.just(""), NAMES),
        st.dictionaries(NAMES, st.integers(-(10**10), 10**12)).map(lambda outputs: tuple(sorted(outputs.items()))),
    ),
    max_size=4,
    unique_by=lambda item: item.input,
).map(tuple)
SETTINGS = st.builds(
    ResourceSettings,
    st.just(BLOCK),
    st.lists(st.sampled_from(["example.com/", "example.com/a", "mem", "x"]), unique=True, max_size=2).map(tuple),
    TRANSFORMATIONS,
)
REQUESTS = st.dictionaries(NAMES, st.integers(0, 10**9))


def transformed(requests: dict[str, int], *transformations: dict[str, Any]) -> dict[str, int]:
    """Return what counts; amounts are in thousandths."""
    return parse_resource_settings({"transformations": list(transformations)}).counted_requests(requests)


def test_an_output_is_added_to_the_request_or_replaces_it() -> None:
    retained = {"input": MIG, "outputs": {"example.com/memory": "10Gi", "example.com/credits": "500m"}}
    outputs = {"example.com/memory": 2 * 10 * 2**30 * 1000, "example.com/credits": 1000}
    assert transformed({MIG: 2000, "cpu": 1}, retained) == {MIG: 2000, "cpu": 1, **outputs}
    assert transformed({MIG: 2000, "cpu": 1}, {**retained, "strategy": "Replace"}) == {"cpu": 1, **outputs}
    assert transformed({MIG: 2000}, {"input": MIG, "strategy": "Replace"}) == {}
    assert transformed({"cpu": 1}, retained) == {"cpu": 1}


def test_outputs_add_to_each_other_and_to_requests() -> None:
    a, b = ({"input": name, "strategy": "Replace", "outputs": {"credits": 2, "cpu": "100m"}} for name in ("a", "b"))
    assert transformed({"a": 1000, "b": 3000, "cpu": 50}, a, b) == {"credits": 8000, "cpu": 450}


def test_a_transformation_of_an_absent_resource_does_not_prevent_later_ones() -> None:
    absent, present = ({"input": name, "outputs": {"credits": 2}} for name in ("absent", "a"))
    assert transformed({"a": 1000}, absent, present) == {"a": 1000, "credits": 2000}


def test_another_resource_multiplies_the_outputs_but_not_the_request() -> None:
    """It has no effect on pods that do not request it."""
    item = {"input": "gpus", "multiplyBy": "copies", "outputs": {"credits": "1500m"}}
    assert transformed({"gpus": 2000, "copies": 3000}, item) == {"gpus": 2000, "copies": 3000, "credits": 9000}
    assert transformed({"gpus": 2000}, item) == {"gpus": 2000, "credits": 3000}


def test_a_negative_sum_of_outputs_counts_as_zero() -> None:
    """It reduces other outputs, but no request (pkg/workload/workload.go applyResourceTransformations)."""
    pays = {"input": "a", "strategy": "Replace", "outputs": {"credits": 3}}
    allows = {"input": "b", "strategy": "Replace", "outputs": {"credits": -1, "cpu": -9}}
    requests = {"a": 1000, "b": 2000, "cpu": 70}
    assert transformed(requests, pays, allows) == {"credits": 1000, "cpu": 70}
    assert transformed({**requests, "b": 9000}, pays, allows) == {"credits": 0, "cpu": 70}


def test_a_prefix_excludes_resources_before_they_are_transformed() -> None:
    settings = parse_resource_settings(
        {
            "excludeResourcePrefixes": ["example.com/"],
            "transformations": [{"input": "example.com/nic", "outputs": {"credits": 1}}],
        }
    )
    assert settings.counted_requests({"example.com/nic": 1, "example.com": 2, "cpu": 3}) == {"example.com": 2, "cpu": 3}


def test_a_number_as_a_key_is_a_name() -> None:
    """YAML reads it as a number."""
    output = transformed({"a": 1000}, {"input": "a", "strategy": "Replace", "outputs": {1: 2, "b": 3}})
    assert output == {"1": 2000, "b": 3000}


def test_devices_count_as_the_resource_of_their_class() -> None:
    mappings = [{"name": "gpus", "deviceClassNames": ["gpu.nvidia.com", "gpu.amd.com"]}]
    settings = parse_resource_settings({"deviceClassMappings": mappings})
    requests = {f"{DEVICE_CLASS}gpu.nvidia.com": 2000, f"{DEVICE_CLASS}gpu.amd.com": 1000, f"{DEVICE_CLASS}nic": 1000}
    assert settings.counted_requests(requests) == {"gpus": 3000, f"{DEVICE_CLASS}nic": 1000}
    assert parse_resource_settings(settings.as_object()) == settings


@given(REQUESTS)
def test_by_default_each_request_counts(requests: dict[str, int]) -> None:
    assert ALL_RESOURCES.counted_requests(requests) == requests
    assert parse_resource_settings({}) == parse_resource_settings(None) == ALL_RESOURCES


@given(SETTINGS, REQUESTS)
def test_no_request_that_is_neither_excluded_nor_replaced_is_reduced(
    settings: ResourceSettings, requests: dict[str, int]
) -> None:
    counted = settings.counted_requests(requests)
    replaced = {item.input for item in settings.transformations if item.strategy == "Replace"}
    outputs = {name for item in settings.transformations for name, _ in item.outputs}
    for name, amount in requests.items():
        if name.startswith(settings.exclude_resource_prefixes):
            assert name in outputs or name not in counted
        elif name not in replaced:
            assert counted[name] >= amount
    assert all(amount >= 0 for amount in counted.values())
    assert counted.keys() <= requests.keys() | outputs


@given(st.integers(0, 10**12), st.integers(1, 10**12))
def test_an_output_is_rounded_up_once(amount: int, billionths: int) -> None:
    item = ResourceTransformation("a", REPLACE, outputs=(("b", billionths), ("c", billionths)))
    other = ResourceTransformation("b", REPLACE, outputs=(("c", billionths),))
    counted = ResourceSettings(transformations=(item, other)).counted_requests({"a": amount, "b": amount})
    assert counted == {"b": -(-amount * billionths // 10**9), "c": -(-2 * amount * billionths // 10**9)}


@given(SETTINGS)
def test_a_setting_survives_serialization(settings: ResourceSettings) -> None:
    assert parse_resource_settings(json.loads(json.dumps(settings.as_object()))) == settings


INVALID: list[tuple[Any, str]] = [
    ([], "resources: not an object: []"),
    ({"exclude": []}, "resources.exclude: unknown field"),
    ({"quotaCheckStrategy": 1}, "resources.quotaCheckStrategy: not one of BlockUndeclared, IgnoreUndeclared: 1"),
    ({"transformations": [{"outputs": {}}]}, "resources.transformations[0].input: is missing"),
    ({"transformations": [{"input": "a", "strategy": "Drop"}]},
     "resources.transformations[0].strategy: not one of Retain, Replace: 'Drop'"),
    ({"transformations": [{"input": "a", "outputs": {"b": "x"}}]},
     "resources.transformations[0].outputs.b: not a quantity: 'x'"),
    ({"transformations": [{"input": "a"}, {"input": "a"}]},
     "resources: has more than one transformation of 'a'"),
    ({"quotaCheckStrategy": "IgnoreUndeclared", "excludeResourcePrefixes": ["a"]},
     "resources.excludeResourcePrefixes: must be empty if quotaCheckStrategy is IgnoreUndeclared: ['a']"),
    ({"deviceClassMappings": [1]}, "resources.deviceClassMappings[0]: not an object: 1"),
    ({"deviceClassMappings": [{"name": "a"}]},
     "resources.deviceClassMappings[0].deviceClassNames: must name a DeviceClass: None"),
    ({"deviceClassMappings": [{"deviceClassNames": ["b"]}]}, "resources.deviceClassMappings[0].name: is missing"),
    ({"deviceClassMappings": [{"name": "a", "deviceClassNames": ["b"], "sources": [{}]}]},
     "resources.deviceClassMappings[0].sources: only the number of devices can be counted: [{}]"),
    ({"deviceClassMappings": [{"name": "a", "deviceClassNames": ["b", "b"]}]},
     "resources: has more than one transformation of 'deviceclass.resource.kubernetes.io/b'"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "message"), INVALID)
def test_an_invalid_setting_is_an_error_that_names_the_field(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        parse_resource_settings(value)
    assert str(error.value) == message
