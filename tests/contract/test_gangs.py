"""The guide to gangs: its objects are applied to an API server, with the extender as a process."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.extender import NAMESPACE, Caller, ExtenderCluster, new_cluster, plain_nrt, running_extender
from support.pod_groups import POD_GROUP_CRD
from support.snapshots import PROJECT
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.extender import Extender

Json = dict[str, Any]

GUIDE = (PROJECT / "docs/guides/gangs.md").read_text()
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUPS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/podgroups"


def guide_objects() -> list[Json]:
    """Return the objects of the guide, in the tests' namespace."""
    [text] = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    objects: list[Json] = list(yaml.safe_load_all(text))
    for obj in objects:
        obj["metadata"]["namespace"] = NAMESPACE
    return objects


@pytest.fixture
def world() -> Generator[ExtenderCluster]:
    """Yield two nodes with two zones of 8 CPUs, of which only 4 CPUs in one zone of the first node are free."""
    with new_cluster() as world:
        world.api.post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(POD_GROUP_CRD.read_text())
        ).ok()
        for name, free in (("n", (4, 0)), ("m", (0, 0))):
            world.add_node(name)
            world.publish(plain_nrt(name, free))
        yield world


@pytest.fixture
def extender(world: ExtenderCluster) -> Generator[Extender]:
    with running_extender("--api-server", world.server.url) as extender:
        extender.until(extender.ready)
        eventually(lambda: "podgroups of scheduling.x-k8s.io/v1alpha1: served=yes" in extender.said)
        yield extender
        extender.close()


def node(world: ExtenderCluster, name: str) -> str:
    return world.pod(name)["spec"].get("nodeName", "")


def test_the_gang_of_the_guide(world: ExtenderCluster, extender: Extender) -> None:
    """The first pod waits for the second, both wait for free CPUs, and then both are bound."""
    group, *pods = guide_objects()
    world.api.post(GROUPS, group).ok()
    with contextlib.closing(Caller(extender)) as caller:
        first = world.create(pods[0])
        expected = dict.fromkeys("nm", "waits for 1 more pod of PodGroup lab/trainer")
        eventually(lambda: caller.filter(first, ["n", "m"]).reasons == expected)  # the group must be observed
        second = world.create(pods[1])
        assert "waits for 3 more pods of PodGroup default/trainer" in GUIDE

        def reason() -> str:
            return next(iter(caller.filter(second, ["n", "m"]).reasons.values()))

        eventually(
            lambda: reason().startswith("PodGroup lab/trainer does not fit: 1 of 2 pods like trainer-0 fit at once")
        )
        assert not node(world, "trainer-0")
        world.publish(plain_nrt("m", (8, 0)))
        eventually(lambda: node(world, "trainer-0") and node(world, "trainer-1"))
        assert node(world, "trainer-0") in ("n", "m")
        assert extender.metric('zonewise_direct_bindings_total{result="bound"}') == 2


def test_without_direct_binding(world: ExtenderCluster) -> None:
    """The extender returns to each pod the node that it holds for it; it requeues the other pods for this purpose."""
    with running_extender("--api-server", world.server.url, "--direct-binding", "false") as extender:
        extender.until(extender.ready)
        eventually(lambda: "podgroups of scheduling.x-k8s.io/v1alpha1: served=yes" in extender.said)
        world.publish(plain_nrt("m", (8, 0)))
        group, *pods = guide_objects()
        world.api.post(GROUPS, group).ok()
        created = [world.create(pod) for pod in pods]
        with contextlib.closing(Caller(extender)) as caller:
            eventually(lambda: caller.filter(created[0], ["n", "m"]).json["NodeNames"])
            conditions = lambda: world.pod("trainer-1")["status"].get("conditions", [])  # noqa: E731
            eventually(lambda: any(one["type"] == "zonewise.dev/ZonesFree" for one in conditions()))
            assert caller.filter(created[1], ["n", "m"]).selected_node
            assert len(extender.state("n")["assumedPods"] + extender.state("m")["assumedPods"]) == 2
        extender.close()


def test_the_label_without_the_custom_resource() -> None:
    """The label has no effect if the API server does not serve PodGroups."""
    with new_cluster() as world, running_extender("--api-server", world.server.url) as extender:
        extender.until(extender.ready)
        eventually(lambda: "podgroups of scheduling.x-k8s.io/v1alpha1: served=no" in extender.said)
        world.add_node("n")
        world.publish(plain_nrt("n", (8, 8)))
        pod = world.create(guide_objects()[1])
        with contextlib.closing(Caller(extender)) as caller:
            eventually(lambda: caller.filter(pod, ["n"]).json["NodeNames"] == ["n"])
        extender.close()
