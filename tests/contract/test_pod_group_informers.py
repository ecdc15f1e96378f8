"""The informers of PodGroups on an API server that serves the custom resource only some of the time."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.api import Api
from support.apiserver import real_apiserver
from support.pod_groups import POD_GROUP_CRD, pod_group
from support.waiting import eventually
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import Forbidden
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.extender.objects.served import Served
from zonewise_scheduler.extender.pod_group_informers import PodGroupInformers
from zonewise_scheduler.quota.api.pod_group_key import GroupKey, read_group_key

if TYPE_CHECKING:
    from collections.abc import Generator

    from zonewise_scheduler.extender.objects.pod_group import PodGroup

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/lab/podgroups"
API, IN_TREE = "scheduling.x-k8s.io", "scheduling.k8s.io"
ANY_FIELDS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
POD_GROUP = pod_group("trainer", 3)
KEY = GroupKey(API, "lab", "trainer")


class Recorder:
    """The groups and APIs that the informers report."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, PodGroup] = {}
        self.served: dict[str, Served] = {}

    def update_pod_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if new is not None:
            self.groups[new.key] = new
        elif old is not None:
            del self.groups[old.key]

    def set_pod_groups_served(self, api_group: str, served: Served) -> None:
        self.served[api_group] = served


class CountingClient(Client):
    """Counts its lists, and gets 403 for them on demand."""

    lists = 0
    denied = False

    def list(self, *args: Any, **kwargs: Any) -> Any:
        self.lists += 1
        if self.denied:
            raise Forbidden(403, "Forbidden", "no right to list podgroups")
        return super().list(*args, **kwargs)


@pytest.fixture
def server() -> Generator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
def client(server: ApiServer) -> Generator[CountingClient]:
    with closing(CountingClient(Config.from_url(server.url))) as client:
        yield client


def informers(client: Client, recorder: Recorder) -> PodGroupInformers:
    return PodGroupInformers(client, recorder, probe_period=0.2)


def test_custom_resource_is_installed_and_removed(server: ApiServer, client: CountingClient) -> None:
    """Groups are reported while the custom resource is served; its absence is no error."""
    api, recorder = Api(server.url), Recorder()
    with informers(client, recorder):
        eventually(lambda: recorder.served.get(API) is recorder.served.get(IN_TREE) is Served.NO)
        definition = yaml.safe_load(POD_GROUP_CRD.read_text())
        api.post(DEFINITIONS, definition).ok()
        eventually(lambda: recorder.served[API] is Served.YES)
        assert recorder.groups == {}
        api.post("/api/v1/namespaces", {"metadata": {"name": "lab"}}).ok()
        api.post(GROUPS, POD_GROUP).ok()
        eventually(lambda: KEY in recorder.groups)
        assert recorder.groups[KEY].min_member == 3
        api.delete(f"{DEFINITIONS}/{definition['metadata']['name']}").ok()
        eventually(lambda: recorder.served[API] is Served.NO)
        api.post(DEFINITIONS, definition).ok()
        eventually(lambda: recorder.served[API] is Served.YES)


def test_served_only_after_the_first_list(server: ApiServer, client: CountingClient) -> None:
    """An existing group is known as soon as its API counts as served."""
    api, recorder = Api(server.url), Recorder()
    api.post(DEFINITIONS, yaml.safe_load(POD_GROUP_CRD.read_text())).ok()
    api.post("/api/v1/namespaces", {"metadata": {"name": "lab"}}).ok()
    api.post(GROUPS, POD_GROUP).ok()
    groups_when_served: list[set[GroupKey]] = []
    recorder.set_pod_groups_served = lambda api_group, served: (  # type: ignore[method-assign]
        groups_when_served.append(set(recorder.groups)) if (api_group, served) == (API, Served.YES) else None
    )
    with informers(client, recorder):
        eventually(lambda: groups_when_served)
    assert groups_when_served == [{KEY}]


def test_forbidden(client: CountingClient) -> None:
    recorder = Recorder()
    client.denied = True
    with informers(client, recorder):
        eventually(lambda: recorder.served.get(API) is Served.FORBIDDEN)
        client.denied = False
        eventually(lambda: recorder.served[API] is Served.NO)


def test_silent_server(server: ApiServer, client: CountingClient) -> None:
    """Without a response, the state does not change."""
    recorder = Recorder()
    with informers(client, recorder):
        eventually(lambda: recorder.served.get(API) is Served.NO)
        server.close()
        lists = client.lists
        eventually(lambda: client.lists >= lists + 4)
        assert recorder.served[API] is Served.NO


def test_versions_of_the_in_tree_api(server: ApiServer, client: CountingClient) -> None:
    """1.36 serves v1alpha2, and 1.37 v1beta1: an upgrade of the API server changes the version that is watched."""
    api, recorder = Api(server.url), Recorder()
    states: list[Served] = []
    recorder.set_pod_groups_served = lambda api_group, served: (  # type: ignore[method-assign]
        states.append(served) if api_group == IN_TREE else None
    )
    definition = yaml.safe_load(POD_GROUP_CRD.read_text())
    definition["metadata"]["name"] = f"podgroups.{IN_TREE}"
    definition["spec"]["group"] = IN_TREE
    old = definition["spec"]["versions"][0] | {"name": "v1alpha2", "schema": {"openAPIV3Schema": ANY_FIELDS}}
    new = old | {"name": "v1beta1", "storage": False}
    definition["spec"]["versions"] = [old]
    api.post("/api/v1/namespaces", {"metadata": {"name": "lab"}}).ok()
    with informers(client, recorder):
        api.post(DEFINITIONS, definition).ok()
        eventually(lambda: states[-1:] == [Served.YES])
        for version, count in (("v1alpha2", 3), ("v1beta1", 4)):
            group = in_tree_pod_group(version, f"trainer-{count}", count)
            api.post(f"/apis/{IN_TREE}/{version}/namespaces/lab/podgroups", group).ok()
            key = GroupKey(IN_TREE, "lab", f"trainer-{count}")
            eventually(lambda key=key: key in recorder.groups)
            assert recorder.groups[key].min_member == count
            api.patch(
                f"{DEFINITIONS}/{definition['metadata']['name']}",
                {"spec": {"versions": [old | {"served": False}, new] if version == "v1beta1" else [old, new]}},
            ).ok()
            eventually(lambda: states[-2:] == [Served.UNKNOWN, Served.YES])


def in_tree_pod_group(version: str, name: str, min_count: int) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
    return {"apiVersion": f"{IN_TREE}/{version}", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def test_in_tree_pod_groups() -> None:
    """A real API server with the gate GenericWorkload serves the in-tree PodGroup, and its pods name the group."""
    flags = ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true")
    recorder = Recorder()
    with real_apiserver(*flags) as server:
        namespace = server.new_namespace()
        group = {"metadata": {"name": "trainer"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
        server.admin.post(f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/podgroups", group).ok()
        spec = {"schedulingGroup": {"podGroupName": "trainer"}, "containers": [{"name": "c", "image": "none"}]}
        pod = server.admin.post(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "p"}, "spec": spec}).ok()
        key = read_group_key(pod)
        assert key is not None
        assert key == GroupKey(IN_TREE, namespace, "trainer")
        with (
            closing(Client(Config.from_url(server.url, server.token, ca=server.ca))) as client,
            informers(client, recorder),
        ):
            eventually(lambda: recorder.served.get(IN_TREE) is Served.YES)
        assert recorder.groups[key].min_member == 3
        assert recorder.groups[key].created > 0
