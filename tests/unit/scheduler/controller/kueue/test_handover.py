"""The steps of a handover, while jobs and controllers change the objects that it writes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from support.kueue_beside import FINALIZER, LEASE_NAME
from zonewise_common.kube.client import ObjectList
from zonewise_common.kube.errors import Conflict, NotFound
from zonewise_common.kube.resources import CONFIG_MAPS, WORKLOADS, Resource
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch
from zonewise_scheduler.controller.jobs.registry import adapters_by_kind
from zonewise_scheduler.controller.kueue.handover import Handover, HandoverOptions
from zonewise_scheduler.controller.kueue.kueue_configuration import CONFIG_MAP_KEY
from zonewise_scheduler.controller.settings import ControllerSettings

if TYPE_CHECKING:
    from collections.abc import Collection

Json = dict[str, Any]


class BusyCluster:
    """A client of a cluster with Workloads; some of them change once between the read and the write."""

    def __init__(self, names: Collection[str], changing: Collection[str]) -> None:
        metadata = {"namespace": "ns", "resourceVersion": "1", "finalizers": [FINALIZER]}
        self.objects = {name: {"metadata": {**metadata, "name": name, "uid": name}} for name in names}
        self._changing = set(changing)
        self.configuration = ""

    def get(self, resource: Resource, _name: str, **_: object) -> Json:
        if resource == CONFIG_MAPS and self.configuration:
            return {"data": {CONFIG_MAP_KEY: self.configuration}}
        raise NotFound(404, "NotFound", "Kueue has neither a Lease nor a configuration")

    def list(self, resource: Resource, **_: object) -> ObjectList[Json]:
        return ObjectList(copy.deepcopy(list(self.objects.values())) if resource == WORKLOADS else [], "1")

    def patch(self, _resource: Resource, name: str, body: Json, **_: object) -> Json:
        if name in self._changing:
            self._changing.discard(name)
            self.objects[name]["metadata"]["resourceVersion"] = "2"
        if body["metadata"]["resourceVersion"] != self.objects[name]["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        self.objects[name] = merge_patch(self.objects[name], copy.deepcopy(body))
        return self.objects[name]


def test_an_adoption_ends_even_if_many_objects_change_once_before_its_writes() -> None:
    names = [f"w{i}" for i in range(100)]
    cluster = BusyCluster(names, names[::10])
    options = HandoverOptions(LEASE_NAME)
    handover = Handover(cluster, adapters_by_kind(), options, lambda _: None)  # pyright: ignore[reportArgumentType]
    handover.read()
    handover.adopt()
    assert not any(obj["metadata"]["finalizers"] for obj in cluster.objects.values())


def test_the_notes_compare_kueues_configuration_with_the_settings() -> None:
    cluster = BusyCluster((), ())
    options = HandoverOptions(LEASE_NAME)
    handover = Handover(cluster, adapters_by_kind(), options, lambda _: None)  # pyright: ignore[reportArgumentType]
    settings = ControllerSettings()._asdict()
    name = f"ConfigMap {LEASE_NAME.namespace}/kueue-manager-config"
    for configuration, notes in (
        ("", [f"{name}: cannot be read, so Kueue's settings are unknown: compare them by hand"]),
        ("kind: Configuration", []),
        ("manageJobsWithoutQueueName: true",
         [f"{name}: manageJobsWithoutQueueName: set the controller's manageJobsWithoutQueueName accordingly: True"]),
    ):  # fmt: skip
        cluster.configuration = configuration
        handover.read()
        assert handover.notes(settings) == notes
