"""A release: the workflow of a tag, its notes, and the objects of the last release under the manifests of this one."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.clusters import ApiServer, embedded_server
from support.manifests import kubectl
from support.snapshots import PROJECT
from tools.chart.renderings import PARTS, Part
from tools.release_notes import main, release_notes
from tools.version import parse_version

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["embedded_server"]

WORKFLOW = PROJECT / ".github" / "workflows" / "release.yml"
CHANGELOG = """\
# Changelog

## 0.3.0 (unreleased)
- Newer.

## 0.2.0 (2026-11-01)
### Added
- A thing.

## [0.1.0]
- The first.
"""
IMMUTABLE = {
    "DaemonSet": ("spec", "selector"),
    "Deployment": ("spec", "selector"),
    "Service": ("spec", "clusterIP"),
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
}
"""Fields that an API server does not let change: a release that changes them cannot be applied over another."""

Object = dict[str, Any]


# --- notes


def test_notes_are_the_section_of_the_version() -> None:
    assert release_notes(CHANGELOG, "0.2.0") == "### Added\n- A thing.\n"
    assert release_notes(CHANGELOG, "0.1.0") == "- The first.\n"


@pytest.mark.parametrize(
    ("version", "message"), [("0.3.0", "as unreleased"), ("0.2", "no section"), ("9", "no section")]
)
def test_notes_need_a_released_section(version: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        release_notes(CHANGELOG, version)


def test_notes_end_with_a_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main(["0.0.0"]) == 2
    assert "CHANGELOG.md has no section for 0.0.0" in capsys.readouterr().err


@pytest.mark.parametrize("version", ["0.1.0", "0.1.0.dev0", "1.2.3rc1"])
def test_versions(version: str) -> None:
    assert parse_version(version) == version


@pytest.mark.parametrize("version", ["v0.1.0", "0.1", "latest", "0.1.0-rc1"])
def test_other_texts_are_no_versions(version: str) -> None:
    with pytest.raises(ArgumentTypeError, match=re.escape(repr(version))):
        parse_version(version)


# --- the workflow


def workflow() -> Object:
    return yaml.safe_load(WORKFLOW.read_text())


def steps() -> list[Object]:
    return workflow()["jobs"]["release"]["steps"]


def test_actions_are_pinned_by_commit() -> None:
    uses = re.findall(r"uses: (.*)", WORKFLOW.read_text())
    assert len(uses) == sum("uses" in step for step in steps()) > 0
    assert [text for text in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", text)] == []


def test_the_workflow_has_no_right_beside_its_jobs() -> None:
    """The token may do nothing by default, and each right of the job is one that a step needs."""
    assert workflow()["permissions"] == {}
    assert workflow()["jobs"]["release"]["permissions"].keys() == {"contents", "packages", "id-token", "attestations"}


def test_the_targets_of_the_workflow_exist() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w.-]+):", makefile, re.MULTILINE))
    commands = [command for step in steps() for command in re.findall(r"make ([\w -]+)", step.get("run", ""))]
    used = {word for command in commands for word in command.split() if word.islower()}
    assert {"check", "image", "chart"} <= used <= targets


def test_the_workflow_signs_both_images_and_the_checksums() -> None:
    script = "\n".join(step.get("run", "") for step in steps())
    assert script.count("for name in zonewise zonewise-scheduler") == 2
    for command in (
        "cosign sign --yes",
        "cosign attest --yes --type cyclonedx",
        "cosign sign-blob",
        "skopeo copy --all",
    ):
        assert command in script


# --- upgrades


def newest_tag() -> str:
    """Return the newest tag of a release; skip the test where there is none."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]
    result = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    tag = os.environ.get("ZONEWISE_UPGRADE_FROM") or result.stdout.strip()
    if not tag:
        pytest.skip("no release yet: `git describe` finds no tag v*; ZONEWISE_UPGRADE_FROM names another commit")
    return tag


def kustomized(directory: Path) -> str:
    return subprocess.run([kubectl(), "kustomize", str(directory)], check=True, capture_output=True, text=True).stdout


def identified(text: str) -> dict[tuple[str, str], Object]:
    items = [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]
    return {(item["kind"], item["metadata"]["name"]): item for item in items}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_last_release_can_be_upgraded(part: Part, embedded_server: ApiServer, tmp_path: Path) -> None:
    """Its objects are applied, then those of this tree over them: no immutable field differs, versions stay served."""
    tag = newest_tag()
    archive = subprocess.run(["git", "archive", tag, "manifests"], cwd=PROJECT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(tmp_path)  # noqa: S202 -- our own files, and Python 3.11.2 has no filters
    texts = [kustomized(root / "manifests" / part.default) for root in (tmp_path, PROJECT)]
    old, new = map(identified, texts)
    for identity in old.keys() & new.keys():
        path = IMMUTABLE.get(identity[0], ())
        if path:
            assert field(old[identity], path) == field(new[identity], path), (identity, path)
        assert served_versions(old[identity]) <= served_versions(new[identity]), identity
    for text in texts:
        apply(embedded_server, text, tmp_path)


def field(item: Object, path: tuple[str, ...]) -> Any:
    value: Any = item
    for key in path:
        value = value.get(key, {})
    return value


def served_versions(item: Object) -> set[str]:
    """Return the versions of a custom resource: objects are stored in each of them."""
    if item["kind"] != "CustomResourceDefinition":
        return set()
    return {version["name"] for version in item["spec"]["versions"] if version["served"]}


def apply(server: ApiServer, text: str, home: Path) -> None:
    command = [kubectl(), "apply", "--server-side", "--validate=false", "-f", "-", f"--server={server.url}"]
    environment = {"HOME": str(home), "PATH": os.environ.get("PATH", "")}
    result = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
