"""The objects that kustomize renders for a part of the manifests, with and without each component."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import yaml

MANIFESTS = Path(__file__).resolve().parent.parent.parent / "manifests"
_PREREQUISITE = re.compile(r"^Needs components/([\w-]+)(?: before it)?\. ")
"""The beginning of the comment in a component that requires another one."""
_AFTER = re.compile(r" [Ii]t comes after components/([\w-]+)\.")
"""How a comment names the component whose output this one changes."""
_EXTENDED_KINDS = ("DaemonSet", "Deployment", "PodMonitor")
"""Kinds of added objects that other components may change."""
KUSTOMIZE_VARIABLES = {"GOGC": "off"}
"""Environment variables of kustomize: garbage collection takes a third of such a short run."""

Object = dict[str, Any]
Components = frozenset[str]


class Part(NamedTuple):
    """A part of the manifests that a user applies or omits."""

    name: str
    """The part's key in the values: "agent"."""
    base: str
    """Path relative to manifests/, as are the others."""
    default: str
    """The kustomization that users apply; its components are enabled by default."""
    components: str
    """The directory of the part's components."""
    settings: str
    """The settings file in the part's ConfigMap."""
    enabled: bool
    """Whether the chart enables the part by default."""
    install: str
    """The output file for `kubectl apply -f`."""


PARTS = (
    Part("agent", "base", "overlays/default", "components", "agent.yaml", enabled=True, install="install.yaml"),
    Part(
        "scheduler",
        "scheduler/base",
        "scheduler",
        "scheduler/components",
        "scheduler.yaml",
        enabled=False,
        install="install-scheduler.yaml",
    ),
    Part(
        "queue",
        "queue/base",
        "queue",
        "queue/components",
        "controller.yaml",
        enabled=False,
        install="install-queue.yaml",
    ),
)


class Component(NamedTuple):
    """A kustomize component."""

    name: str
    path: str
    """Path relative to manifests/."""
    summary: str
    """The first sentence of the component's comment."""
    prerequisite: str
    """The component that it requires, which is applied before it; "" for none."""
    after: str
    """The component that is applied before it if both are enabled; "" for none."""
    patches: bool
    """Whether it changes objects that it does not add."""


def default_components(part: Part) -> list[str]:
    """Return the paths of the components that a user of the part gets by default."""
    content = yaml.safe_load((MANIFESTS / part.default / "kustomization.yaml").read_text())
    base = MANIFESTS / part.default
    return [os.path.relpath((base / path).resolve(), MANIFESTS) for path in content.get("components", ())]


def components_of(part: Part) -> list[Component]:
    """Return the components of a part in the order in which they apply.

    A component in the directory of another part belongs to the part that enables it by default.
    """
    claimed = {path: owner.name for owner in PARTS for path in default_components(owner)}
    own = [
        str(path.relative_to(MANIFESTS)) for path in sorted((MANIFESTS / part.components).iterdir()) if path.is_dir()
    ]
    paths = {path for path in own if claimed.get(path, part.name) == part.name} | {*default_components(part)}
    components = [_component(path) for path in sorted(paths)]
    by_name = {component.name: component for component in components}
    default = default_components(part)

    def depth(component: Component) -> int:
        before = by_name.get(component.after)
        return 0 if before is None else 1 + depth(before)

    # default ones first; then those that add workloads, since others change these; then by required order
    return sorted(
        components,
        key=lambda component: (
            component.path not in default,
            not _adds_workloads(component),
            depth(component),
            component.name,
        ),
    )


def renderings(part: Part) -> dict[Components, list[Object]]:
    """Return the objects of a part without components, with each one, and with the combinations that may interact."""
    components = components_of(part)
    paths = {component.name: component.path for component in components}
    base = render(part.base, [])
    alone = _render_all(part, [frozenset({component.name}) for component in components], paths)
    known = {_identity(item) for item in base}
    extended = {component.prerequisite or component.after for component in components} - {""} | {
        name
        for names, objects in alone.items()
        for name in names
        if any(item["kind"] in _EXTENDED_KINDS and _identity(item) not in known for item in objects)
    }
    changing = [component for component in components if component.patches]
    extended |= {component.name for component in changing if component.path in default_components(part)}
    sets = _interactions(changing, sorted(extended))
    return {frozenset(): base, **alone, **_render_all(part, [names for names in sets if names not in alone], paths)}


def render(base: str, components: list[str]) -> list[Object]:
    """Return the objects of a kustomization with components, all relative to manifests/."""
    return list(yaml.load_all(render_text(base, components), yaml.CSafeLoader))


def render_text(base: str, components: list[str], images: list[dict[str, str]] | None = None) -> str:
    """Return the same as YAML, with other images: `name`, `newName` and `newTag` of each."""
    with tempfile.TemporaryDirectory() as directory:
        near = os.path.relpath(MANIFESTS, os.path.realpath(directory))
        content: dict[str, Any] = {
            "resources": [f"{near}/{base}"],
            "components": [f"{near}/{path}" for path in components],
            "images": images or [],
        }
        (Path(directory) / "kustomization.yaml").write_text(yaml.safe_dump(content))
        command = [kubectl(), "kustomize", directory]
        environment = {**os.environ, **KUSTOMIZE_VARIABLES}
        return subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, timeout=120, env=environment
        ).stdout


def kubectl() -> str:
    """Return the program that renders kustomizations.

    Raises FileNotFoundError if there is none.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin")
    program = shutil.which("kubectl", path=f"{assets}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    if program is None:
        raise FileNotFoundError("kubectl is not on PATH")
    return program


def _component(path: str) -> Component:
    file = MANIFESTS / path / "kustomization.yaml"
    text = file.read_text()
    comment = " ".join(line.removeprefix("#").strip() for line in itertools.takewhile(_is_comment, text.splitlines()))
    needs = _PREREQUISITE.match(comment)
    prerequisite = next(filter(None, needs.groups())) if needs else ""
    own = comment[needs.end() :] if needs else comment
    summary = re.split(r"(?<=[.:])\s", own, maxsplit=1)[0].rstrip(".:")
    summary = f"{summary[:1].upper()}{summary[1:]}" or Path(path).name
    earlier = _AFTER.search(comment)
    after = earlier[1] if earlier else prerequisite
    return Component(Path(path).name, path, summary, prerequisite, after, "patches" in yaml.safe_load(text))


def _is_comment(line: str) -> bool:
    return line.startswith("#")


def _adds_workloads(component: Component) -> bool:
    content = yaml.safe_load((MANIFESTS / component.path / "kustomization.yaml").read_text())
    return any((MANIFESTS / component.path / resource).is_dir() for resource in content.get("resources", ()))


def _interactions(changing: list[Component], extended: list[str]) -> list[Components]:
    """Return each component that changes objects, with those that add these objects.

    A component that is only applied after another one is combined with and without it.
    """
    sets: dict[Components, None] = {}
    for component in changing:
        for before in dict.fromkeys((component.after, component.prerequisite)):
            needed = {component.name, component.prerequisite, before} - {""}
            sets |= {frozenset({*needed, *more}): None for more in [(), *zip(extended, strict=True)]}
    return list(sets)


def _render_all(part: Part, sets: list[Components], paths: dict[str, str]) -> dict[Components, list[Object]]:
    def render_set(names: Components) -> list[Object]:
        return render(part.base, [path for name, path in paths.items() if name in names])

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(sets, pool.map(render_set, sets), strict=True))


def _identity(item: Object) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]
