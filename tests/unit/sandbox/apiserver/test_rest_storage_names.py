"""Names that the API server generates: never repeated, and generated again if one exists."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from support.api import Api
from support.clusters import config_map
from zonewise_sandbox.apiserver import ApiServer, objectmeta

if TYPE_CHECKING:
    from collections.abc import Iterator

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def api() -> Iterator[Api]:
    with ApiServer() as server:
        yield Api(server.url)


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the next generated suffixes, which the test sets."""
    suffixes: list[str] = []

    def generated_name(prefix: str) -> str:
        return prefix + suffixes.pop(0)

    monkeypatch.setattr(objectmeta, "generated_name", generated_name)
    return suffixes


def test_a_seed_of_the_shared_generator_does_not_repeat_names() -> None:
    names: set[str] = set()
    for _ in range(20):
        random.seed(0)
        names.add(objectmeta.generated_name("some-"))
    assert len(names) == 20


def test_a_generated_name_that_exists_is_generated_anew(api: Api, generated: list[str]) -> None:
    generated += ["one", "one", "one", "two"]
    api.post(MAPS, {"metadata": {"generateName": "some-"}}).ok()
    created = api.post(MAPS, {"metadata": {"generateName": "some-"}}).ok()
    assert created["metadata"]["name"] == "some-two"


def test_eight_generated_names_that_exist_are_a_conflict(api: Api, generated: list[str]) -> None:
    generated += ["one"] * 9
    api.post(MAPS, {"metadata": {"generateName": "some-"}}).ok()
    status = api.post(MAPS, {"metadata": {"generateName": "some-"}}).refused(409, "AlreadyExists")
    assert status["message"] == 'configmaps "some-one" already exists'
    assert not generated


def test_a_name_that_the_client_chose_is_tried_once(api: Api, generated: list[str]) -> None:
    api.post(MAPS, config_map("one")).ok()
    body = {"metadata": {"name": "one", "generateName": "some-"}}
    api.post(MAPS, body).refused(409, "AlreadyExists")
    assert not generated
