"""On a real API server: a release's files are accepted unchanged, in the guide's order, and over the last release."""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.apiserver import RealServer, real_apiserver
from support.manifests import kubectl
from support.releases import newest_release
from support.snapshots import PROJECT
from support.waiting import eventually
from tools.chart.__main__ import install_file
from tools.chart.renderings import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.api import Api

Object = dict[str, Any]

VERSION, REGISTRY = "9.9.9", "registry.example.com/"
GUIDE = PROJECT / "docs/guides/deploy.md"


@pytest.fixture(scope="module")
def server() -> Iterator[RealServer]:
    """Return a separate server: webhooks of the queue would reject the jobs of other tests."""
    kubectl()
    with real_apiserver() as running:
        yield running


def install_files() -> list[Object]:
    """Return the objects of all files, in the order of the guide."""
    files = [install_file(part.default, VERSION, REGISTRY) for part in PARTS]
    return [item for text in files for item in yaml.load_all(text, yaml.CSafeLoader) if item]


def old_objects(directory: Path) -> list[Object]:
    """Return the objects of the newest release; skip the test if there is none."""
    command = ["git", "archive", newest_release(), "manifests"]
    archive = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(directory)  # noqa: S202 -- our own files, and Python 3.11.2 has no filters
    texts = [
        subprocess.run(
            [kubectl(), "kustomize", str(directory / "manifests" / part.default)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for part in PARTS
    ]
    return [item for text in texts for item in yaml.load_all(text, yaml.CSafeLoader) if item]


def path_of(admin: Api, item: Object) -> str:
    """Return the path of an object, by discovery; wait for a kind that was defined just before."""
    version = item["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    found: list[Object] = []

    def is_served() -> bool:
        listing = admin.get(root)
        kinds: list[Object] = listing.body["resources"] if listing.status == 200 else []
        found[:] = [kind for kind in kinds if kind["kind"] == item["kind"] and "/" not in kind["name"]]
        return bool(found)

    eventually(is_served)
    scope = f"/namespaces/{item['metadata']['namespace']}" if found[0]["namespaced"] else ""
    return f"{root}{scope}/{found[0]['name']}/{item['metadata']['name']}"


def apply(admin: Api, items: list[Object]) -> dict[str, Any]:
    """Apply objects one by one with strict validation; return the version of each applied object by its path.

    An unknown field, an invalid value, an object before its namespace or definition, or a warning fails the test.
    """
    versions: dict[str, Any] = {}
    for item in items:
        path = path_of(admin, item)
        answer = admin.apply(path, item, "test", fieldValidation="Strict")
        metadata = answer.ok()["metadata"]
        versions[path] = metadata.get("generation", metadata["resourceVersion"])  # a generation ignores status
        assert "warning" not in answer.headers, (path, answer.headers["warning"])
    return versions


def test_a_server_accepts_the_files_unchanged(server: RealServer) -> None:
    items = install_files()
    versions = apply(server.admin, items)
    assert len(versions) == len(items)
    assert apply(server.admin, items) == versions  # a repetition changes nothing
    for item in items:
        if item["kind"] == "CustomResourceDefinition":
            group, plural = item["spec"]["group"], item["spec"]["names"]["plural"]
            for version in item["spec"]["versions"]:
                eventually(
                    lambda path=f"/apis/{group}/{version['name']}/{plural}": server.admin.get(path).status == 200
                )


def test_the_files_can_be_applied_over_the_last_release(server: RealServer, tmp_path: Path) -> None:
    """After the objects of the last release: no immutable field differs, and each version is still served."""
    apply(server.admin, old_objects(tmp_path))
    apply(server.admin, install_files())


def test_images_are_of_the_release() -> None:
    """All images have the registry and version of the release; only kube-scheduler's has the cluster's version."""
    kubectl()
    pods = [item["spec"]["template"]["spec"] for item in install_files() if item["kind"] in {"DaemonSet", "Deployment"}]
    images = {container["image"] for pod in pods for container in pod["containers"]}
    own = {image for image in images if "kube-scheduler" not in image}
    assert own == {f"{REGISTRY}zonewise:{VERSION}", f"{REGISTRY}zonewise-scheduler:{VERSION}"}


def test_the_guide_has_the_files_in_their_order() -> None:
    """The first file contains the common namespace."""
    lines = [line for line in GUIDE.read_text().splitlines() if line.startswith("$ kubectl apply --server-side -f")]
    assert [line.rpartition("/")[2] for line in lines] == [part.install for part in PARTS]
