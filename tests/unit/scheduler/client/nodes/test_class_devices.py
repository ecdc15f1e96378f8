"""The devices of DeviceClasses in the lists of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from zonewise_common.cli.output_format import render_listing
from zonewise_common.cli.terminal import Terminal
from zonewise_common.kube.errors import Forbidden
from zonewise_common.kube.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from zonewise_scheduler.client.describe.describe_node import describe_node
from zonewise_scheduler.client.nodes.node_facts import ClassDevices
from zonewise_scheduler.client.nodes.node_listing import list_nodes
from zonewise_scheduler.client.nodes.node_reading import read_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.client.cluster.session import Session
    from zonewise_scheduler.client.nodes.node_facts import NodeAvailability

Json = dict[str, Any]

GPU = "example.com/gpu"


def node(**allocatable: str) -> Json:
    amounts = {"cpu": "8", **allocatable}
    return {"metadata": {"name": "n", "labels": {"rack": "a"}}, "spec": {}, "status": {"allocatable": amounts}}


def device_class(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


def device_slice(devices: int, **device: Any) -> Json:
    listed = [{"name": f"d{i}", **device} for i in range(devices)]
    spec = {"driver": "a.io", "nodeName": "n", "pool": {"name": "n"}, "devices": listed}
    return {"metadata": {"name": "s"}, "spec": spec}


def claim(*devices: str) -> Json:
    results = [{"request": "r", "driver": "a.io", "pool": "n", "device": device} for device in devices]
    return {"metadata": {"name": "c"}, "status": {"allocation": {"devices": {"results": results}}}}


class Cluster:
    """A session whose user may not list one kind."""

    def __init__(self, *, forbidden: Resource | None = None, **objects: list[Json]) -> None:
        self.objects = {NODES: [node()], **{resource: objects.get(resource.plural, []) for resource in READ}}
        self.forbidden = forbidden

    def list(self, resource: Resource, **_: str) -> list[Json]:
        if resource == self.forbidden:
            raise Forbidden(403, "Forbidden", "no right")
        return self.objects.get(resource, [])

    def read(self, resource: Resource, read: Callable[[Json], Any]) -> list[Any]:
        return [read(obj) for obj in self.list(resource)]


READ = (DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS)
CLASSES = [
    device_class("gpus", extendedResourceName=GPU),
    device_class("nics", selectors=[{"cel": {"expression": 'device.driver == "b.io"'}}]),
]


def read(cluster: Cluster) -> tuple[NodeAvailability, list[str]]:
    [only], notes = read_nodes(cast("Session", cluster))
    return only, [note for note in notes if "Zones are missing" not in note]


def test_a_node_has_the_devices_of_its_slices() -> None:
    cluster = Cluster(
        deviceclasses=CLASSES, resourceslices=[device_slice(4)], resourceclaims=[claim("d0", "d3"), claim()]
    )
    found, notes = read(cluster)
    assert found.class_devices == {"gpus": ClassDevices(2, 4)}
    assert (found.allocatable[GPU], found.free(GPU)) == (4, 2)
    assert notes == []
    [header, row] = render_listing(list_nodes([found]), "wide", Terminal()).splitlines()
    assert row[header.index("DEVICES FREE") :].startswith("example.com/gpu=2, gpus=2")
    document = list_nodes([found]).document["items"][0]
    assert document["deviceClasses"] == {"gpus": {"free": 2, "total": 4}}
    texts = {detail.label: list(detail.texts) for detail in describe_node(found, {}, 0.0, ()).details}
    assert texts["devices"] == ["gpus: 2 of 4 free"]


def test_a_device_plugin_takes_precedence() -> None:
    cluster = Cluster(deviceclasses=CLASSES, resourceslices=[device_slice(4)])
    cluster.objects[NODES] = [node(**{GPU: "8"})]
    found, _ = read(cluster)
    assert (found.allocatable[GPU], found.free(GPU)) == (8, 8)


def test_devices_without_a_number_are_left_out() -> None:
    shared = device_slice(2, allowMultipleAllocations=True)
    assert read(Cluster(deviceclasses=CLASSES, resourceslices=[shared]))[0].class_devices == {}


@pytest.mark.parametrize("missing", ["deviceclasses", "resourceslices"])
def test_a_cluster_without_devices(missing: str) -> None:
    cluster = Cluster(deviceclasses=CLASSES, resourceslices=[device_slice(4)])
    cluster.objects = {kind: [] if kind.plural == missing else objects for kind, objects in cluster.objects.items()}
    found, notes = read(cluster)
    assert (found.class_devices, found.allocatable, notes) == ({}, {"cpu": 8000}, [])


@pytest.mark.parametrize("forbidden", READ)
def test_missing_permissions_are_noted(forbidden: Resource) -> None:
    cluster = Cluster(forbidden=forbidden, deviceclasses=CLASSES, resourceslices=[device_slice(4)])
    found, notes = read(cluster)
    devices = "free devices" if forbidden == RESOURCE_CLAIMS else "devices"
    assert notes == [f"The {devices} of DeviceClasses are unknown: no right"]
    assert found.class_devices == ({"gpus": ClassDevices(None, 4)} if forbidden == RESOURCE_CLAIMS else {})
    assert found.free(GPU) == (4 if forbidden == RESOURCE_CLAIMS else None)


def test_the_free_extended_resources_are_unknown_without_the_pods() -> None:
    cluster = Cluster(forbidden=PODS, deviceclasses=CLASSES, resourceslices=[device_slice(4)])
    found, _ = read(cluster)
    assert (found.free(GPU), found.allocatable[GPU], found.class_devices["gpus"].free) == (None, 4, 4)


def test_an_invalid_slice_is_a_problem_of_its_node() -> None:
    invalid = device_slice(1, consumesCounters=[{"counterSet": "g", "counters": {"m": {"value": "many"}}}])
    invalid["spec"]["sharedCounters"] = [{"name": "g", "counters": {"m": {"value": "4"}}}]
    found, notes = read(Cluster(deviceclasses=CLASSES, resourceslices=[invalid]))
    assert found.class_devices == {}
    assert notes == ["n: its devices are unknown: not a quantity: 'many'"]
