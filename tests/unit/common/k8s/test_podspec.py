"""The containers of a pod's spec with their roles."""

from __future__ import annotations

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_common.k8s.podspec import containers


def test_init_containers_come_first() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always"}
    spec = {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, sidecar]}
    assert [(role, container["name"], path) for role, container, path in containers(spec)] == [
        ("init", "i", "spec.initContainers[0]."),
        ("sidecar", "s", "spec.initContainers[1]."),
        ("app", "a", "spec.containers[0]."),
    ]


def test_an_invalid_list() -> None:
    with pytest.raises(FieldError, match=r"^spec\.containers: not a list: 1$"):
        list(containers({"containers": 1}))
