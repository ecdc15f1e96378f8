"""The LimitRanges of a namespace taken together: the defaults of containers, and what violates the ranges."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.quota.api.limit_ranges import check_pod, check_requests, container_defaults

Json = dict[str, Any]

PATH = "spec.podSets[0].template.spec."
CONTAINER = "spec.podSets[0].template.spec.containers[0]"
ABOVE, BELOW = "requests must not be above the limitRange max", "requests must not be below the limitRange min"


def limit_range(name: str = "a", *, kind: str = "Container", **fields: Json) -> Json:
    return {"metadata": {"namespace": "ns", "name": name}, "spec": {"limits": [{"type": kind, **fields}]}}


def pod_spec(*, limits: Json | None = None, pods: int = 1, **requests: Any) -> Json:
    resources = {"requests": requests, "limits": limits or {}}
    return {"containers": [{"name": f"c{i}", "resources": resources} for i in range(pods)]}


def problem(spec: Json, *ranges: Json) -> str:
    """Return why the pod is rejected; empty if it is not."""
    try:
        check_pod(spec, PATH, ranges)
    except FieldError as error:
        return str(error)
    return ""


def test_the_first_default_of_a_resource_counts() -> None:
    first = limit_range("a", defaultRequest={"cpu": "1"}, default={"cpu": "2"})
    second = limit_range("b", defaultRequest={"cpu": "8", "memory": "1Gi"})
    pods = limit_range("c", kind="Pod", defaultRequest={"memory": "9Gi"})
    defaults = container_defaults([first, second, pods])
    assert defaults.requests == {"cpu": "1", "memory": "1Gi"}
    assert defaults.limits == {"cpu": "2"}


def test_without_ranges_everything_is_allowed() -> None:
    assert problem(pod_spec(cpu="9000")) == ""


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (pod_spec(cpu="1"), ""),
        (pod_spec(cpu="4"), ""),
        (pod_spec(cpu="4001m"), f"{CONTAINER}: cpu: {ABOVE}"),
        (pod_spec(cpu="1", limits={"cpu": "5"}), f"{CONTAINER}: cpu: {ABOVE}"),
        (pod_spec(cpu="500m", limits={"cpu": "2"}), f"{CONTAINER}: cpu: {BELOW}"),
        (pod_spec(memory="1Gi"), ""),
        (pod_spec(cpu="1", memory="1Ti"), f"{CONTAINER}: memory: {ABOVE}"),
    ],
)
def test_bounds_of_containers(spec: Json, expected: str) -> None:
    """The smallest maximum and the largest minimum count, both for requests and for limits."""
    strict = limit_range("a", min={"cpu": "1"}, max={"cpu": "4", "memory": "1Gi"})
    loose = limit_range("b", min={"cpu": "1m"}, max={"cpu": "64", "memory": "2Gi"})
    assert problem(spec, strict, loose) == problem(spec, loose, strict) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (pod_spec(cpu="1", limits={"cpu": "1"}), f"cpu: {BELOW}"),
        (pod_spec(cpu="2", limits={"cpu": "2"}, pods=2), ""),
        (pod_spec(cpu="2", limits={"cpu": "2"}, pods=3), f"cpu: {ABOVE}"),
        (pod_spec(cpu="1", limits={"cpu": "3"}, pods=2), f"cpu: {ABOVE}"),
        (pod_spec(cpu="2", pods=2), "cpu: must have limits: there is a limitRange max"),
        (pod_spec(memory="1Gi", limits={"cpu": "4"}), ""),
        (pod_spec(memory="1Gi"), "cpu: must have requests: there is a limitRange min"),
        ({**pod_spec(pods=2), "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}}, ""),
        ({**pod_spec(pods=2), "resources": {"limits": {"cpu": "5"}}}, f"cpu: {ABOVE}"),
    ],
)
def test_bounds_of_pods_count_the_requests_and_limits_of_all_containers(spec: Json, expected: str) -> None:
    bounds = limit_range(kind="Pod", min={"cpu": "2"}, max={"cpu": "4"})
    assert problem(spec, bounds) == (expected and f"{PATH.removesuffix('.')}: {expected}")


@pytest.mark.parametrize(
    ("spec", "is_allowed"),
    [
        (pod_spec(cpu="2", limits={"cpu": "5"}), True),
        (pod_spec(cpu="2", limits={"cpu": "5001m"}), False),
        (pod_spec(cpu="0", limits={"cpu": "1"}), False),
        (pod_spec(cpu="0", limits={"cpu": "0"}), False),
        (pod_spec(cpu="2"), False),
        (pod_spec(limits={"cpu": "2"}), True),
        (pod_spec(memory="1Gi"), False),
    ],
)
@pytest.mark.parametrize(("kind", "field"), [("Container", CONTAINER), ("Pod", PATH.removesuffix("."))])
def test_limits_are_bounded_by_requests(kind: str, field: str, spec: Json, *, is_allowed: bool) -> None:
    """The smallest ratio counts. Without a limit there is no ratio."""
    ranges = [limit_range(kind=kind, maxLimitRequestRatio={"cpu": ratio}) for ratio in ("2500m", "3")]
    ratio = "limits must not be above the limitRange maxLimitRequestRatio times the requests"
    assert problem(spec, *ranges) == ("" if is_allowed else f"{field}: cpu: {ratio}")


def test_bounds_of_pods_do_not_count_the_overhead_of_the_runtime_class() -> None:
    bounds = limit_range(kind="Pod", max={"cpu": "4"})
    assert problem({**pod_spec(cpu="4", limits={"cpu": "4"}), "overhead": {"cpu": "1"}}, bounds) == ""


@pytest.mark.parametrize("field", ["containers[0]", "initContainers[0]", ""])
def test_a_request_must_not_exceed_its_limit(field: str) -> None:
    resources = {"requests": {"cpu": "8", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "1Gi"}}
    owner = {"name": "c", "resources": resources}
    spec = {field.removesuffix("[0]"): [owner]} if field else {"resources": resources}
    expected = f"{PATH}{field}".removesuffix(".")
    with pytest.raises(FieldError) as error:
        check_requests({"containers": [], **spec}, PATH)
    assert str(error.value) == f"{expected}: cpu: requests must not exceed its limits"
    resources["requests"] = {"cpu": "4000m"}
    check_requests({"containers": [], **spec}, PATH)


def test_a_limit_without_a_request_is_the_request() -> None:
    check_requests({"containers": [{"name": "c", "resources": {"limits": {"cpu": "4"}}}]}, PATH)


def test_an_invalid_range_is_named() -> None:
    with pytest.raises(FieldError, match=r"LimitRange a: spec\.limits\[0\]\.max\.cpu: .*much"):
        check_pod(pod_spec(cpu="1"), PATH, [limit_range(max={"cpu": "much"})])
