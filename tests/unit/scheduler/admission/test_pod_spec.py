"""Pods read from JSON into shapes, with the API server's defaults and quality-of-service class."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.admission.pod import Container, PodLevelResources
from zonewise_scheduler.admission.pod_spec import read_pod

GIB = 1 << 30
Json = dict[str, Any]


def container(name: str = "c", *, limits: Json | None = None, requests: Json | None = None, **more: Any) -> Json:
    resources = {"limits": limits, "requests": requests}
    return {
        "name": name,
        "resources": {kind: amounts for kind, amounts in resources.items() if amounts is not None},
        **more,
    }


def pod(*containers: Json, inits: tuple[Json, ...] = (), status: Json | None = None, **spec: Any) -> Json:
    result = {"spec": {"containers": list(containers), "initContainers": list(inits), **spec}}
    return result | ({"status": status} if status is not None else {})


def test_resources_of_a_container() -> None:
    """CPUs are in milli-CPUs, memory and storage in bytes, devices are rounded up. Other resources are omitted."""
    limits = {
        "cpu": "1500m",
        "memory": "1Gi",
        "hugepages-2Mi": "4Mi",
        "ephemeral-storage": "1k",
        "nvidia.com/gpu": "1500m",
        "example.com/none": 0,
        "kubernetes.io/batch-cpu": 1000,
        "requests.example.com/x": 1,
        "attachable-volumes-csi-x": 3,
    }
    assert read_pod(pod(container(limits=limits))).containers == (
        Container(
            "c",
            "app",
            1500,
            (("hugepages-2Mi", 4 << 20), ("memory", GIB)),
            (("example.com/none", 0), ("nvidia.com/gpu", 2)),
            1000,
        ),
    )


def test_resource_names_are_compared_by_value() -> None:
    """Only CPU is counted in thousandths, for containers and at the pod level, wherever it is in the order of names."""
    limits = {"".join([*name]): 3 for name in ("amd.com/gpu", "cpu", "hugepages-2Mi", "memory", "nvidia.com/gpu")}
    compute = {name: size for name, size in limits.items() if "/" not in name}
    shape = read_pod(pod(container(limits=limits), resources={"limits": compute}))
    memory = (("hugepages-2Mi", 3), ("memory", 3))
    assert shape.containers == (Container("c", "app", 3000, memory, (("amd.com/gpu", 3), ("nvidia.com/gpu", 3))),)
    assert shape.pod_level == PodLevelResources(3000, memory)


def test_each_request_defaults_to_its_limit() -> None:
    """A resource with a request keeps it; a resource with only a limit requests the limit."""
    shape = read_pod(pod(container(limits={"cpu": 4, "memory": "2Gi"}, requests={"cpu": 1})))
    assert (shape.containers[0].milli_cpus, shape.containers[0].memory) == (1000, (("memory", 2 * GIB),))
    assert (shape.qos, shape.containers[0].complete) == ("Burstable", False)


def test_order_of_containers() -> None:
    """Init containers and sidecars come first, in their own order."""
    inits = (container("i"), container("s", restartPolicy="Always"), container("j", restartPolicy=None))
    shape = read_pod(pod(container("a"), container("b"), inits=inits))
    assert [(each.name, each.role) for each in shape.containers] == [
        ("i", "init"),
        ("s", "sidecar"),
        ("j", "init"),
        ("a", "app"),
        ("b", "app"),
    ]


BOTH = {"cpu": 1, "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "inits", "qos"),
    [
        ((container(),), (), "BestEffort"),
        ((container(limits={"nvidia.com/gpu": 1}),), (), "BestEffort"),
        ((container(limits={"cpu": 0}),), (), "BestEffort"),
        ((container(limits=BOTH),), (), "Guaranteed"),
        ((container(limits=BOTH, requests={"cpu": "500m"}),), (), "Burstable"),
        ((container(limits=BOTH, requests={"cpu": 2}),), (), "Burstable"),
        ((container(limits=BOTH), container("d")), (), "Burstable"),
        ((container(limits=BOTH),), (container("i"),), "Burstable"),
        ((container(limits=BOTH),), (container("i", limits=BOTH),), "Guaranteed"),
        ((container(limits={"cpu": 1}),), (), "Burstable"),
        ((container(requests=BOTH),), (), "Burstable"),
    ],
)
def test_classes(containers: tuple[Json, ...], inits: tuple[Json, ...], qos: str) -> None:
    """In Guaranteed pods, every container, init ones included, has CPU and memory limits equal to its requests."""
    assert read_pod(pod(*containers, inits=inits)).qos == qos


def test_the_class_in_the_status_takes_precedence() -> None:
    assert read_pod(pod(container(), status={"qosClass": "Guaranteed"})).qos == "Guaranteed"


# --- pod level


def pod_level_and_class(
    resources: Json | None, *containers: Json, inits: tuple[Json, ...] = ()
) -> tuple[PodLevelResources | None, str]:
    shape = read_pod(pod(*containers or (container(),), inits=inits, resources=resources))
    return shape.pod_level, shape.qos


def test_pod_level_resources() -> None:
    """If no container requests a resource, its request defaults to the limit. The class follows from the results."""
    assert pod_level_and_class({"limits": BOTH}) == (PodLevelResources(1000, (("memory", GIB),)), "Guaranteed")
    assert pod_level_and_class({"requests": {"cpu": 1}}) == (PodLevelResources(1000), "Burstable")
    assert pod_level_and_class({"requests": {"memory": 1}}) == (PodLevelResources(None, (("memory", 1),)), "Burstable")
    assert pod_level_and_class(None)[0] is None


def test_container_requests_precede_pod_level_limits() -> None:
    """The peak of the containers counts: init containers with earlier sidecars, or all other containers."""
    inits = (
        container("i", requests={"cpu": 3}),
        container("s", requests={"cpu": 1}, restartPolicy="Always"),
        container("j", requests={"cpu": "2500m"}),
    )
    defaulted = pod_level_and_class({"limits": {"cpu": 8, "memory": 4}}, container(requests={"cpu": 2}), inits=inits)
    assert defaulted == (PodLevelResources(3500, (("memory", 4),)), "Burstable")
    assert pod_level_and_class({"limits": {"cpu": 8}}, container(requests={"cpu": 0}))[0] == PodLevelResources(0)


def test_hugepages_of_containers_become_the_pod_level_limit() -> None:
    """The limit is that of defaultHugePagePodLimits, unless the pod requests hugepages at the pod level."""
    hugepages = container(limits={"hugepages-2Mi": "4Mi"})
    assert pod_level_and_class({"requests": {"cpu": 1}}, hugepages)[0] == PodLevelResources(
        1000, (("hugepages-2Mi", 4 << 20),)
    )
    explicit = {"requests": {"hugepages-2Mi": "8Mi"}}
    assert pod_level_and_class(explicit, hugepages)[0] == PodLevelResources(None, (("hugepages-2Mi", 8 << 20),))


def test_resources_that_are_not_allowed_at_the_pod_level() -> None:
    """IsPodLevelResourcesSet is false for them, but the presence of the field decides the class."""
    assert pod_level_and_class({"limits": {"example.com/x": 1}}, container(limits=BOTH)) == (None, "BestEffort")
    assert pod_level_and_class({}, container(limits=BOTH)) == (None, "BestEffort")


def test_overhead() -> None:
    shape = read_pod(pod(container(), overhead={"memory": "64Mi", "cpu": "250m"}))
    assert shape.overhead == (("cpu", 250), ("memory", 64 << 20))


def test_equal_pods_have_equal_shapes() -> None:
    """Names, claims and other fields that the managers ignore make no difference."""
    first = pod(container(limits=BOTH)) | {"metadata": {"name": "a"}}
    second = pod(container(limits={"memory": "1024Mi", "cpu": "1"}, image="x"), nodeName="n", resourceClaims=[{}])
    assert read_pod(first) == read_pod(second)
    assert hash(read_pod(first)) == hash(read_pod(second))


@pytest.mark.parametrize(
    ("damaged", "field", "value"),
    [
        ({}, "spec.containers", "missing"),
        ({"spec": []}, "spec", r"\[\]"),
        ({"spec": {"containers": {}}}, "spec.containers", "{}"),
        (pod("c"), r"spec.containers\[0\]", "'c'"),  # pyright: ignore[reportArgumentType]
        (pod({"name": ""}), r"spec.containers\[0\].name", "''"),
        (pod(container(), inits=({"name": 5},)), r"spec.initContainers\[0\].name", "5"),
        (
            pod(container(), container("d", limits={"cpu": "1x"})),
            r"spec.containers\[1\].resources.requests.cpu",
            "1x",
        ),
        (pod(container(limits={"a/b": "-1"})), r"spec.containers\[0\].resources.limits.a/b", "-1"),
        (pod(container(requests={"memory": []})), r"spec.containers\[0\].resources.requests.memory", r"\[\]"),
        (pod(container(requests={"cpu": True})), r"spec.containers\[0\].resources.requests.cpu", "True"),
        (pod(container(limits={"cpu": 1}, requests={"cpu": 1}, resources=5)), r"spec.containers\[0\].resources", "5"),
        (pod(container(), resources={"limits": {"cpu": "z"}}), r"spec.resources.limits.cpu", "z"),
        (pod(container(), overhead={"cpu": "z"}), r"spec.overhead.cpu", "z"),
        (pod(container(), status={"qosClass": "Best"}), "status.qosClass", "Best"),
    ],
)
def test_damage(damaged: Json, field: str, value: str) -> None:
    """The error states the field and the value."""
    with pytest.raises(FieldError, match=f"^{field}: .*{value}"):
        read_pod(damaged)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("1m", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("spec", "containers", "resources", "limits", "requests", "cpu", "a/b", "name", "status")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(("spec", "status")), JSON))
def test_any_object_is_read_or_raises_field_error(damaged: Json) -> None:
    """No other error is raised."""
    with suppress(FieldError):
        read_pod(damaged)
