"""Pods as JSON to what of them decides about their fit: defaulted and classed as the API server does."""

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
    return {"name": name, "resources": {kind: given for kind, given in resources.items() if given is not None}, **more}


def pod(*containers: Json, inits: tuple[Json, ...] = (), status: Json | None = None, **spec: Any) -> Json:
    made = {"spec": {"containers": list(containers), "initContainers": list(inits), **spec}}
    return made | ({"status": status} if status is not None else {})


def test_all_of_a_container() -> None:
    """CPUs are milli-CPU, memory and storage bytes, devices counts rounded up; the rest is left out."""
    asked = {
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
    assert read_pod(pod(container(limits=asked))).containers == (
        Container(
            "c",
            "app",
            1500,
            (("hugepages-2Mi", 4 << 20), ("memory", GIB)),
            (("example.com/none", 0), ("nvidia.com/gpu", 2)),
            1000,
        ),
    )


def test_requests_default_to_limits_one_by_one() -> None:
    """What has a request keeps it; what has a limit only requests that."""
    shape = read_pod(pod(container(limits={"cpu": 4, "memory": "2Gi"}, requests={"cpu": 1})))
    assert (shape.containers[0].milli_cpus, shape.containers[0].memory) == (1000, (("memory", 2 * GIB),))
    assert (shape.qos, shape.containers[0].complete) == ("Burstable", False)


def test_roles_in_their_order() -> None:
    """Init containers and sidecars come first, in their order."""
    inits = (container("i"), container("s", restartPolicy="Always"), container("j", restartPolicy=None))
    shape = read_pod(pod(container("a"), container("b"), inits=inits))
    assert [(one.name, one.role) for one in shape.containers] == [
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
        ((container(limits=BOTH), container("d")), (), "Burstable"),
        ((container(limits=BOTH),), (container("i"),), "Burstable"),
        ((container(limits=BOTH),), (container("i", limits=BOTH),), "Guaranteed"),
        ((container(limits={"cpu": 1}),), (), "Burstable"),
        ((container(requests=BOTH),), (), "Burstable"),
    ],
)
def test_classes(containers: tuple[Json, ...], inits: tuple[Json, ...], qos: str) -> None:
    """Every container, init containers too, needs limits of both that are its requests."""
    assert read_pod(pod(*containers, inits=inits)).qos == qos


def test_the_class_that_the_api_server_wrote_is_taken() -> None:
    assert read_pod(pod(container(), status={"qosClass": "Guaranteed"})).qos == "Guaranteed"


# --- the pod as a whole


def level(
    resources: Json | None, *containers: Json, inits: tuple[Json, ...] = ()
) -> tuple[PodLevelResources | None, str]:
    shape = read_pod(pod(*containers or (container(),), inits=inits, resources=resources))
    return shape.pod_level, shape.qos


def test_a_pod_of_its_own_resources() -> None:
    """Its requests default to its limits where no container requests any, and its class is by these."""
    assert level({"limits": BOTH}) == (PodLevelResources(1000, (("memory", GIB),)), "Guaranteed")
    assert level({"requests": {"cpu": 1}}) == (PodLevelResources(1000), "Burstable")
    assert level({"requests": {"memory": 1}}) == (PodLevelResources(None, (("memory", 1),)), "Burstable")
    assert level(None)[0] is None


def test_requests_of_its_containers_come_before_its_limits() -> None:
    """What they request together: the highest of init containers beside the sidecars before them, and of the others."""
    inits = (
        container("i", requests={"cpu": 3}),
        container("s", requests={"cpu": 1}, restartPolicy="Always"),
        container("j", requests={"cpu": "2500m"}),
    )
    made = level({"limits": {"cpu": 8, "memory": 4}}, container(requests={"cpu": 2}), inits=inits)
    assert made == (PodLevelResources(3500, (("memory", 4),)), "Burstable")
    assert level({"limits": {"cpu": 8}}, container(requests={"cpu": 0}))[0] == PodLevelResources(0)


def test_huge_pages_of_containers_become_the_pods_limit() -> None:
    """defaultHugePagePodLimits: unless the pod requests them itself."""
    pages = container(limits={"hugepages-2Mi": "4Mi"})
    assert level({"requests": {"cpu": 1}}, pages)[0] == PodLevelResources(1000, (("hugepages-2Mi", 4 << 20),))
    own = {"requests": {"hugepages-2Mi": "8Mi"}}
    assert level(own, pages)[0] == PodLevelResources(None, (("hugepages-2Mi", 8 << 20),))


def test_resources_that_a_pod_cannot_have_are_none() -> None:
    """IsPodLevelResourcesSet; but the class is by the pod as soon as the field is there."""
    assert level({"limits": {"example.com/x": 1}}, container(limits=BOTH)) == (None, "BestEffort")
    assert level({}, container(limits=BOTH)) == (None, "BestEffort")


def test_overhead() -> None:
    shape = read_pod(pod(container(), overhead={"memory": "64Mi", "cpu": "250m"}))
    assert shape.overhead == (("cpu", 250), ("memory", 64 << 20))


def test_equal_pods_are_equal_keys() -> None:
    """Names of pods, claims and everything else that no kubelet's managers look at make no difference."""
    one = pod(container(limits=BOTH)) | {"metadata": {"name": "a"}}
    other = pod(container(limits={"memory": "1024Mi", "cpu": "1"}, image="x"), nodeName="n", resourceClaims=[{}])
    assert read_pod(one) == read_pod(other)
    assert hash(read_pod(one)) == hash(read_pod(other))


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({}, "spec.containers", "none"),
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
def test_damage(given: Json, field: str, value: str) -> None:
    """An error names the field and shows the value."""
    with pytest.raises(FieldError, match=f"^{field}: .*{value}"):
        read_pod(given)


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
def test_nothing_but_an_error_of_the_pod(given: Json) -> None:
    """Whatever the object, it is read or refused."""
    with suppress(FieldError):
        read_pod(given)
