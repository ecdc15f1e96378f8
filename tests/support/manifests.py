"""The manifests as kustomize renders them, and the parts that tests check.

kubectl is looked up as programs.py does, then on PATH. Tests are skipped if it is absent.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.definitions import definition_of
from support.programs import find_program, missing_program
from support.snapshots import PROJECT
from support.waiting import eventually
from tools.chart.renderings import KUSTOMIZE_VARIABLES
from zonewise.commands import agent
from zonewise_common.service.handlers import UNAUTHENTICATED_PATHS
from zonewise_scheduler.commands import scheduler

if TYPE_CHECKING:
    from support.apiserver import RealServer

MANIFESTS = PROJECT / "manifests"
NAMESPACE = "zonewise"
ACCOUNT = "zonewise-agent"
COMMANDS = {"agent": agent.COMMAND, "scheduler": scheduler.COMMAND}

Object = dict[str, Any]


def overlays(part: str = ".") -> list[str]:
    """Return what a user may apply, relative to manifests/: a part itself ("." or "scheduler") and its overlays."""
    return [part, *_named(MANIFESTS / part / "overlays")]


def components(part: str = ".") -> list[str]:
    """Return the components of a part's overlays, relative to manifests/."""
    return _named(MANIFESTS / part / "components")


def kubectl() -> str:
    """Return the file of kubectl; skip the test if there is none."""
    found = find_program("kubectl") or shutil.which("kubectl")
    if found is None:
        pytest.skip(f"{missing_program('kubectl')}, or have it on PATH")
    return str(found)


@functools.cache
def rendered(overlay: str) -> str:
    """Return the output of `kubectl kustomize` for an overlay, as YAML."""
    return _kustomize(MANIFESTS / overlay)


def objects(overlay: str) -> list[Object]:
    """Return the objects of an overlay, newly parsed for each call."""
    return json.loads(_rendered_json(overlay))


@functools.cache
def _rendered_json(overlay: str) -> str:
    """Return an overlay as JSON, which is parsed tens of times faster than YAML."""
    return json.dumps(_documents(rendered(overlay)))


def combined(overlay: str, *parts: str) -> list[Object]:
    """Return the objects of an overlay with extra components, as in a user's own kustomization."""
    return kustomized({"resources": [overlay], "components": parts})


def kustomized(content: Object) -> list[Object]:
    """Return the objects of a user's own kustomization; its resources and components are relative to manifests/."""
    with tempfile.TemporaryDirectory() as directory:
        near = os.path.relpath(MANIFESTS, os.path.realpath(directory))
        places = {
            key: [f"{near}/{place}" for place in content[key]] for key in ("resources", "components") if key in content
        }
        (Path(directory) / "kustomization.yaml").write_text(yaml.safe_dump(content | places))
        return _documents(_kustomize(Path(directory)))


def of_kind(made: list[Object], kind: str) -> list[Object]:
    """Return the objects of a kind."""
    return [one for one in made if one["kind"] == kind]


def containers(made: list[Object]) -> list[tuple[Object, Object]]:
    """Return the pod of every DaemonSet with its only container."""
    pods = [one["spec"]["template"]["spec"] for one in of_kind(made, "DaemonSet")]
    assert all(len(pod["containers"]) == 1 and "initContainers" not in pod for pod in pods)
    return [(pod, pod["containers"][0]) for pod in pods]


def mounts_of(pod: Object, container: Object) -> dict[str, tuple[Object, Object]]:
    """Return (mount, volume) by mount path; fail if a volume is not mounted."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(volumes) == {mount["name"] for mount in container["volumeMounts"]}
    return {mount["mountPath"]: (mount, volumes[mount["name"]]) for mount in container["volumeMounts"]}


def check_probes(container: Object, scheme: str) -> None:
    """Check that the probes of a container use endpoints without a token, with the scheme."""
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: probe["path"] for kind, probe in probes.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert {probe["path"] for probe in probes.values()} == set(UNAUTHENTICATED_PATHS)
    assert {(probe["port"], probe.get("scheme", "HTTP")) for probe in probes.values()} == {("metrics", scheme)}


def parsed(arguments: list[str]) -> Namespace:
    """Return the parsed arguments of the agent's or the scheduler's container."""
    parser = ArgumentParser(exit_on_error=False)
    COMMANDS[arguments[0]].add_arguments(parser)
    return parser.parse_args(arguments[1:])


def rights(made: list[Object], account: str = ACCOUNT) -> set[tuple[str, str, str]]:
    """Return the rights of an account as (verb, group/resource or path, namespace or "*").

    A binding to one of the cluster's own roles is represented by the role's name: ("as", role, namespace or "*").
    """
    roles = {(role["kind"], role["metadata"]["name"]): role["rules"] for role in made if role["kind"].endswith("Role")}
    found: set[tuple[str, str, str]] = set()
    for binding in made:
        if not binding["kind"].endswith("RoleBinding"):
            continue
        subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
        if binding["subjects"] != [subject]:
            continue
        where = binding["metadata"].get("namespace", "*")
        role = binding["roleRef"]["name"]
        if (binding["roleRef"]["kind"], role) not in roles:
            found.add(("as", role, where))
        for rule in roles.get((binding["roleRef"]["kind"], role), ()):
            things = [f"{group}/{name}" for group in rule.get("apiGroups", ()) for name in rule.get("resources", ())]
            things += rule.get("nonResourceURLs", [])
            found |= {(verb, thing, where) for verb in rule["verbs"] for thing in things}
    return found


def any_kind(group: str, version: str, kind: str, plural: str) -> str:
    """Return a CRD without validation for a namespaced kind of another project, as an additional document."""
    return f"---\n{yaml.safe_dump(definition_of(f'{plural}.{group}', kind, version))}"


def prometheus_kinds() -> str:
    """Return CRDs for the Prometheus Operator's kinds in the manifests."""
    kinds = {"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"}
    return "".join(any_kind("monitoring.coreos.com", "v1", kind, plural) for kind, plural in kinds.items())


def apply(server: RealServer, content: str, *flags: str) -> str:
    """Apply YAML as a user does, and return kubectl's output; fail the test on any rejection or unknown field.

    The function waits until kinds that the YAML defines are served.
    """
    command = [
        kubectl(), "apply", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-", *flags,
        f"--server={server.url}", f"--token={server.token}", f"--certificate-authority={server.ca}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as home:  # without a user's kubeconfig and without a cache of other servers
        answer = subprocess.run(
            command,
            input=content,
            check=False,
            capture_output=True,
            text=True,
            env={"HOME": home, "PATH": os.environ.get("PATH", "")},
            timeout=300,
        )
    assert answer.returncode == 0, answer.stderr
    if "--dry-run=server" not in flags:
        for made in of_kind(_documents(content), "CustomResourceDefinition"):
            _wait_for(server, made["spec"])
    return answer.stdout


def _wait_for(server: RealServer, defined: Object) -> None:
    for version in defined["versions"]:
        eventually(lambda name=version["name"]: server.admin.serves(defined["group"], name, defined["names"]["plural"]))


def _named(folder: Path) -> list[str]:
    return sorted(str(place.relative_to(MANIFESTS)) for place in folder.iterdir())


def _documents(text: str) -> list[Object]:
    """Return the documents of a YAML text. The loader in C takes a tenth of the time."""
    return list(yaml.load_all(text, yaml.CSafeLoader))


def _kustomize(place: Path) -> str:
    command = [kubectl(), "kustomize", str(place)]
    environment = {**os.environ, **KUSTOMIZE_VARIABLES}
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=environment)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout
