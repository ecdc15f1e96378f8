"""A release: the workflow of a tag, its notes, and the objects of the last release, to which this tree is applied."""

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
from support.releases import newest_release
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
"""Fields that an API server does not let change: a release that changes them cannot be applied over an earlier one."""

PROGRAMS = {
    "cosign", "cp", "gh", "helm", "jq", "make", "python3", "sha256sum", "skopeo", ".bootstrap/bin/uv", "mkdir",
}  # fmt: skip
"""Programs of the workflow: cosign comes from an action, .bootstrap/bin/uv from `make`, the others from the runner
ubuntu-24.04 (actions/runner-images, images/ubuntu/Ubuntu2404-Readme.md, and Ubuntu's own).
"""
BASH = {"echo", "cd", "cat", "for", "done", "case", "esac"}

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
def test_other_texts_are_not_versions(version: str) -> None:
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


def test_the_workflow_itself_has_no_rights() -> None:
    """By default, the token has no rights, and a step needs each right of the job."""
    assert workflow()["permissions"] == {}
    assert workflow()["jobs"]["release"]["permissions"].keys() == {"contents", "packages", "id-token", "attestations"}


def test_the_targets_of_the_workflow_exist() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w.-]+):", makefile, re.MULTILINE))
    commands = [command for step in steps() for command in re.findall(r"make ([\w -]+)", step.get("run", ""))]
    used = {word for command in commands for word in command.split() if word.islower()}
    assert {"check", "image", "chart"} <= used <= targets


def test_the_files_and_programs_of_the_workflow_exist() -> None:
    """Steps only run files of this tree, programs that `make` installs, and those of the runner or an action."""
    scripts = [step["run"] for step in steps() if "run" in step]
    words = {word for script in scripts for word in re.findall(r"[\w./-]+", script)}
    files = {word for word in words if re.fullmatch(r"(tools|manifests|docs)/[\w./-]+", word)}
    assert files == {"tools/release_notes.py"}
    assert all((PROJECT / file).is_file() for file in files)
    assert ".bootstrap/bin/uv" in words
    assert "UV := .bootstrap/bin/uv\n" in (PROJECT / "Makefile").read_text()
    assert {command for script in scripts for command in commands(script)} == PROGRAMS


def commands(script: str) -> set[str]:
    """Return the programs of a bash script, without bash's own words."""
    script = script.replace("\\\n", " ")
    parts = re.split(r"\n|;(?!;)|\||&&|\$\(|\bdo\b|\bin\b (?=\*\[)|\) (?=kind)", script)
    words = (re.sub(r"^(?:[A-Z_]+=\S* +)*", "", part.strip()).split(" ", 1)[0] for part in parts)
    return {word for word in words if re.fullmatch(r"[\w./-]+", word)} - BASH


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


def kustomized(directory: Path) -> str:
    return subprocess.run([kubectl(), "kustomize", str(directory)], check=True, capture_output=True, text=True).stdout


def identified(text: str) -> dict[tuple[str, str], Object]:
    items = [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]
    return {(item["kind"], item["metadata"]["name"]): item for item in items}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_last_release_can_be_upgraded(part: Part, embedded_server: ApiServer, tmp_path: Path) -> None:
    """After its objects, those of this tree can be applied: no immutable field differs, versions are still served."""
    tag = newest_release()
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
    """Return the served versions of a custom resource; objects may be stored in each of them."""
    if item["kind"] != "CustomResourceDefinition":
        return set()
    return {version["name"] for version in item["spec"]["versions"] if version["served"]}


def apply(server: ApiServer, text: str, home: Path) -> None:
    command = [kubectl(), "apply", "--server-side", "--validate=false", "-f", "-", f"--server={server.url}"]
    environment = {"HOME": str(home), "PATH": os.environ.get("PATH", "")}
    result = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
