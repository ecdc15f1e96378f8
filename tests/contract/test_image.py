"""The images, as far as they can be checked without building them: what they copy, what they run, what they start."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from benchmarks.agent_testbed import SERVICE
from support.manifests import parsed
from support.snapshots import PROJECT

UV = PROJECT / ".bootstrap" / "bin" / "uv"
HAS_UV = pytest.mark.skipif(not UV.exists(), reason="the tests were not started by `make test`, so uv is not set up")
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
PARTS = ("agent", "scheduler")

each_part = pytest.mark.parametrize("part", PARTS)


class Step(NamedTuple):
    """One instruction of the Dockerfile."""

    instruction: str
    text: str


class Sync(NamedTuple):
    """One `uv sync`, with the files that are there when it runs."""

    arguments: list[str]
    files: list[str]


def steps() -> list[Step]:
    text = (PROJECT / "Dockerfile").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    return [Step(*line.split(maxsplit=1)) for line in lines.splitlines() if line.strip()]


def stages() -> list[list[Step]]:
    """Return uv's, the build, what both images have, the agent's, the scheduler's, and the choice between these."""
    found: list[list[Step]] = []
    for step in steps():
        found += [[]] if step.instruction == "FROM" else []
        if found:  # before the first there are arguments for FROM only
            found[-1].append(step)
    return found


def last_of(part: str) -> list[Step]:
    """Return the stage that gives a part its own."""
    [found] = [stage for stage in stages() if stage[0].text == f"both AS {part}"]
    return found


def texts(instruction: str, stage: list[Step] | None = None) -> list[str]:
    return [step.text for step in (steps() if stage is None else stage) if step.instruction == instruction]


def copied(stage: list[Step]) -> list[str]:
    """Return what a stage copies from the repository."""
    return [name for text in texts("COPY", stage) if "--from" not in text for name in text.split()[:-1]]


def variables(stage: list[Step]) -> dict[str, str]:
    return dict(pair.split("=", 1) for text in texts("ENV", stage) for pair in shlex.split(text))


def syncs(part: str = "agent") -> list[Sync]:
    """Return each `uv sync` of the build of a part; files that are bound to it are there for it only."""
    found: list[Sync] = []
    there: list[str] = []
    for step in stages()[1]:
        there += copied([step])
        if step.instruction == "RUN" and "uv sync" in step.text:
            bound = re.findall(r"--mount=type=bind,source=(\S+?),target=\1\s", step.text)
            arguments = step.text.partition("uv sync")[2].replace("${PART}", part)
            found.append(Sync(shlex.split(arguments), [*bound, *there]))
    return found


def test_what_is_copied_is_there_and_not_ignored() -> None:
    """Each source exists, and .dockerignore, which ignores all but what it lists, lets exactly these through."""
    sources = {name for sync in syncs() for name in sync.files}
    assert [name for name in sources if not (PROJECT / name).exists()] == []
    listed = [line for line in (PROJECT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert listed[0] == "*"
    assert {line[1:] for line in listed if line.startswith("!")} == sources


def test_what_the_package_is_made_of_is_copied() -> None:
    """The build finds metadata, readme, licence and packages. The sandbox stays out. The version is an argument."""
    sources = syncs()[-1].files
    project = PYPROJECT["project"]
    packages = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    roots = {name.partition("/")[0] for name in packages}
    assert roots - {"sandbox"} | {project["readme"], *project["license-files"], "pyproject.toml", "uv.lock"} == set(
        sources
    )
    assert "SETUPTOOLS_SCM_PRETEND_VERSION=${VERSION}" in " ".join(texts("ENV", stages()[1]))


def test_uv_is_the_one_of_the_project() -> None:
    """Image and development set up with the same version."""
    [pinned] = re.findall(r'^UV = "uv==(.+)"$', (PROJECT / "tools" / "bootstrap.py").read_text(), re.MULTILINE)
    assert stages()[0] == [Step("FROM", f"ghcr.io/astral-sh/uv:{pinned} AS uv")]


def test_the_part_is_an_argument() -> None:
    """The agent's image is made where nothing is said; the argument chooses the extra and the last stage."""
    assert steps()[0] == Step("ARG", "PART=agent")
    assert "PART" in texts("ARG", stages()[1])
    assert stages()[-1] == [Step("FROM", "${PART}")]
    assert {stage[0].text.rpartition(" AS ")[2] for stage in stages()} >= set(PARTS)
    assert set(PARTS) <= set(PYPROJECT["project"]["optional-dependencies"])


def test_the_service_is_installed_as_by_make() -> None:
    """The options of the last `uv sync` are those of `make install`; where the Makefile has more, ENV says it."""
    [line] = re.findall(r"sync .*--no-editable.*", (PROJECT / "Makefile").read_text())
    by_make = set(line.split()[1:]) - {"--quiet", "--compile-bytecode"}
    assert set(syncs()[-1].arguments) == by_make
    assert variables(stages()[1])["UV_COMPILE_BYTECODE"] == "1"
    assert set(syncs()[0].arguments) == by_make - {"--no-editable"} | {"--no-install-project"}


def test_bytecode_is_never_forgone() -> None:
    """Nothing turns it off, in the image or in the manifests, and the standard library's is made too."""
    files = [PROJECT / "Dockerfile", *(PROJECT / "manifests").rglob("*.yaml")]
    assert [file for file in files if "DONTWRITEBYTECODE" in file.read_text()] == []
    compiled = [json.loads(text) for text in texts("RUN", stages()[2])]
    assert [command[:4] for command in compiled] == [["/usr/bin/python3", "-m", "compileall", "-q"]]


def test_bytecode_is_of_the_level_that_is_run() -> None:
    """What is compiled in either stage is what the agent's Python looks for, and what the benchmark weighs."""
    _, build, final, *_ = stages()
    assert variables(build)["PYTHONOPTIMIZE"] == variables(final)["PYTHONOPTIMIZE"]
    instructions = [step.instruction for step in final]
    assert instructions.index("ENV") < instructions.index("RUN")
    assert variables(final) == SERVICE
    assert not [text for part in PARTS for text in texts("ENV", last_of(part))]


def test_both_stages_have_the_same_python() -> None:
    """The environment is made for the Python of the same Debian, which is one that the project takes."""
    _, build, final, *_ = stages()
    [debian] = re.findall(r"^debian:(\d+)-slim AS build$", build[0].text)
    assert final[0].text == f"gcr.io/distroless/python3-debian{debian}:nonroot AS both"
    [version] = re.findall(r"/usr/lib/python(3\.\d+)", texts("RUN", final)[0])
    assert {"13": "3.13"}[debian] == version
    lowest = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    assert tuple(map(int, version.split("."))) >= tuple(map(int, lowest.split(".")))


def test_the_build_of_the_final_stages_needs_no_shell() -> None:
    """A distroless image has none: RUN, ENTRYPOINT and CMD are lists."""
    final = [step for stage in stages()[2:] for step in stage]
    commands = [step.text for step in final if step.instruction in ("RUN", "ENTRYPOINT", "CMD")]
    assert len(commands) == 4
    assert all(isinstance(json.loads(text), list) for text in commands)


def test_what_they_start_exists() -> None:
    """The entry point is a script of the package in the environment that is copied."""
    _, build, final, *_ = stages()
    place = variables(build)["UV_PROJECT_ENVIRONMENT"]
    assert f"--from=build {place} {place}" in texts("COPY", final)
    [program] = json.loads(texts("ENTRYPOINT", final)[0])
    assert program == f"{place}/bin/zonewise"
    assert "zonewise" in PYPROJECT["project"]["scripts"]


@each_part
def test_each_starts_its_part(part: str) -> None:
    """The command is one of the program's, and takes its arguments."""
    [command] = [json.loads(text) for text in texts("CMD", last_of(part))]
    assert command[0] == part
    parsed(command)


def test_the_manifests_start_them() -> None:
    """The Deployment says itself what the scheduler's image starts when nothing is said."""
    deployment = yaml.safe_load((PROJECT / "manifests/scheduler/base/deployment.yaml").read_text())
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"] == json.loads(texts("CMD", last_of("scheduler"))[0])


def test_root_is_the_manifests_choice() -> None:
    """Without the DaemonSet the images run as nobody."""
    assert texts("USER", stages()[2])[-1] == "65532:65532"
    assert not [text for part in PARTS for text in texts("USER", last_of(part))]


def test_proc_is_where_the_daemonset_looks_for_it(tmp_path: Path) -> None:
    """The command that makes the link makes one to /proc below the root that the DaemonSet names, in which /sys is."""
    daemonset = yaml.safe_load((PROJECT / "manifests/base/daemonset/daemonset.yaml").read_text())
    [container] = daemonset["spec"]["template"]["spec"]["containers"]
    [root] = [one.removeprefix("--root=") for one in container["args"] if one.startswith("--root=")]
    [command] = [text for text in texts("RUN", stages()[1]) if "ln -s" in text]
    place = texts("COPY", stages()[2])[-1]
    assert place == "--from=build /root-of-image/ /"
    subprocess.run(command.replace("/root-of-image", str(tmp_path)), shell=True, check=True)  # noqa: S602 -- our own
    link = tmp_path / root.lstrip("/") / "proc"
    assert link.readlink() == Path("/proc")
    assert f"{root}/proc" not in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert f"{root}/sys" in {mount["mountPath"] for mount in container["volumeMounts"]}


@HAS_UV
@each_part
@pytest.mark.parametrize("number", range(2))
def test_uv_takes_its_commands(part: str, number: int, tmp_path: Path) -> None:
    """With the files that are there at that step, and no others, uv finds the lock valid and knows what to install."""
    said = run_uv(syncs(part)[number], tmp_path, "--dry-run")
    assert ("+ zonewise @" in said) == (number == 1)
    assert ("+ grpcio==" in said, "+ numpy==" in said) == (part == "agent", part == "scheduler")
    assert "+ pytest==" not in said


@HAS_UV
@each_part
@pytest.mark.long
def test_the_environment_works(part: str, tmp_path: Path) -> None:
    """Both steps, one after the other, make an environment in which the part runs, without the repository."""
    for number, sync in enumerate(syncs(part)):
        run_uv(sync, tmp_path / str(number))
    shutil.rmtree(tmp_path / "1")
    program, python = (tmp_path / "environment" / "bin" / name for name in ("zonewise", "python"))
    answer = subprocess.run([program, part, "--help"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert {"agent": "--publish-labels", "scheduler": "--extender-only"}[part] in answer.stdout
    main = {"agent": "zonewise.daemon.main", "scheduler": "zonewise_scheduler.extender.main"}[part]
    subprocess.run([python, "-c", f"import {main}"], cwd=tmp_path, check=True, env={**os.environ, **SERVICE})


def run_uv(sync: Sync, place: Path, *more: str) -> str:
    """Run one `uv sync` in a directory with its files only; the environment is beside that directory."""
    place.mkdir(exist_ok=True)
    for name in sync.files:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(PROJECT / name, place / name)
    environment = {
        **os.environ,
        "UV_PROJECT_ENVIRONMENT": str(place.parent / "environment"),
        "UV_COMPILE_BYTECODE": "1",
    }
    environment.pop("VIRTUAL_ENV", None)
    answer = subprocess.run(
        [UV, "sync", *sync.arguments, *more],
        cwd=place,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stderr
