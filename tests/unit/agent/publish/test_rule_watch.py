"""Watching NodeFeatureRules: unknown rules differ from no rules."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from support.api import Api
from support.rules import CRD, GROUP_CRD, GROUPS, RULES, group_object, rule_object
from support.waiting import eventually
from zonewise.publish.rule_watch import RuleWatch
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.resources import NODE_FEATURE_GROUPS, NODE_FEATURE_RULES
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    server = ApiServer(0)
    server.start()
    yield server
    server.close()


def test_the_kind_may_be_created_later_and_objects_may_change(server: ApiServer) -> None:
    changes: list[None] = []
    with closing(Client(Config.from_url(server.url))) as client, closing(Api(server.url)) as api:
        watch = RuleWatch(client, NODE_FEATURE_RULES, lambda: changes.append(None), absent_pause=0.01)
        assert watch.rules() is None
        watch.start()
        with closing(watch):
            assert watch.wait_known(10)
            assert watch.rules() == ()
            api.post(CRDS, CRD).ok()
            for name in ("b", "a"):
                api.post(RULES, rule_object({"matchFeatures": []}, name=name)).ok()
            eventually(lambda: [one.name for one in watch.rules() or ()] == ["a", "b"])
            count = len(changes)
            api.delete(f"{RULES}/a").ok()
            eventually(lambda: [one.name for one in watch.rules() or ()] == ["b"])
            eventually(lambda: len(changes) > count)


def test_the_status_of_a_group_is_not_a_change(server: ApiServer) -> None:
    """The status changes with each node that joins, and every agent watches it."""
    changes: list[None] = []
    with closing(Client(Config.from_url(server.url))) as client, closing(Api(server.url)) as api:
        api.post(CRDS, GROUP_CRD).ok()
        api.post(GROUPS, group_object({"matchFeatures": []}, name="g")).ok()
        watch = RuleWatch(client, NODE_FEATURE_GROUPS, lambda: changes.append(None))
        watch.start()
        with closing(watch):
            assert watch.wait_known(10)
            count = len(changes)
            api.patch(f"{GROUPS}/g/status", {"status": {"nodes": [{"name": "n"}]}}).ok()
            api.post(GROUPS, group_object({"matchFeatures": []}, name="h")).ok()
            eventually(lambda: [one.name for one in watch.rules() or ()] == ["default/g", "default/h"])
            eventually(lambda: len(changes) == count + 1)


def test_rules_are_unknown_while_the_server_is_unavailable() -> None:
    changes: list[None] = []
    with closing(Client(Config.from_url("http://127.0.0.1:1"))) as client:
        watch = RuleWatch(client, NODE_FEATURE_RULES, lambda: changes.append(None))
        watch.start()
        with closing(watch):
            eventually(lambda: watch.problem != "")
            assert watch.rules() is None
            assert changes
