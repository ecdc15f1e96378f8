"""The Helm chart and install*.yaml: Helm renders the same objects from values as kustomize does from components.

`make test-long` runs the tests of the agent's part, for which kustomize runs ninety times.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from support.apiserver import RealServer, real_server
from support.clusters import ApiServer, embedded_server
from support.manifests import MANIFESTS, kubectl
from tools.chart.__main__ import install_file, release_files
from tools.chart.chart import PartTemplate, chart_files, read_part, schema, semantic, without_hash, write_values
from tools.chart.guards import Condition, Literal, compare, evaluate, find_condition
from tools.chart.renderings import PARTS, Part, components_of, render
from tools.chart.templates import camel_case

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["embedded_server", "real_server"]

NAMES = ("a", "b", "c")
EVERY_SET = [frozenset(name for i, name in enumerate(NAMES) if number >> i & 1) for number in range(1 << len(NAMES))]
VERSION = "1.2.3"
RESOURCE_POLICY = "helm.sh/resource-policy"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

each_part = pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)


# --- conditions


@given(present=st.sets(st.sampled_from(NAMES)), absent=st.sets(st.sampled_from(NAMES)))
def test_a_conjunction_is_found(present: set[str], absent: set[str]) -> None:
    """For any conjunction, the derived condition holds for the same sets of components."""
    literals = [*map(Literal, present), *(Literal(name, chosen=False) for name in absent - present)]
    truth = Condition(tuple((literal,) for literal in literals))
    holders = [names for names in EVERY_SET if truth.holds(names)]
    condition = find_condition(holders, EVERY_SET, NAMES)
    assert [names for names in EVERY_SET if condition.holds(names)] == holders


@given(st.sets(st.sampled_from(NAMES), min_size=1))
def test_alternatives_are_found(names: set[str]) -> None:
    """The result of any one of several components is present with each of them."""
    holders = [chosen for chosen in EVERY_SET if chosen & names]
    condition = find_condition(holders, EVERY_SET, NAMES)
    assert [chosen for chosen in EVERY_SET if condition.holds(chosen)] == holders


def test_other_interactions_are_an_error() -> None:
    """If a field is present with exactly one of two components, no condition explains it."""
    with pytest.raises(ValueError, match="no condition explains presence with a; b"):
        find_condition([frozenset("a"), frozenset("b")], [frozenset(), *map(frozenset, ("a", "b", "ab"))], NAMES)


@given(st.data())
def test_comparison_keeps_each_rendering(data: st.DataObject) -> None:
    """Components add fields, items and values, and the merged template reproduces each rendering."""
    base = data.draw(st.dictionaries(st.sampled_from("xyz"), st.integers()))
    added = {name: data.draw(st.lists(st.integers(0, 3), unique=True)) for name in NAMES}
    renderings = {
        names: base
        | {f"of-{name}": {"value": name} for name in names}
        | {"list": ["first", *(f"{name}{item}" for name in sorted(names) for item in added[name])]}
        | {"replaced": "a" in names, "twice": ["x", "y", "x", *(["x"] if "b" in names else [])]}
        for names in EVERY_SET
    }
    [everything] = compare(renderings, NAMES)
    for names, value in renderings.items():
        assert evaluate(everything.node, names) == value


# --- the chart


@functools.cache
def chart_of(part: Part) -> PartTemplate:
    kubectl()
    return read_part(part)


def choices(part: Part) -> dict[str, frozenset[str]]:
    """Return choices of components; the generator has rendered none of them except the defaults."""
    components = components_of(part)
    plain = [component.name for component in components if not component.prerequisite]
    return {
        "defaults": chart_of(part).defaults(),
        "all": frozenset(component.name for component in components),
        "all-without-prerequisites": frozenset(plain),
        "every-second": frozenset(plain[::2]),
    }


def single_choices(part: Part) -> list[frozenset[str]]:
    return [frozenset({component.name, component.prerequisite} - {""}) for component in components_of(part)]


def expected_objects(part: Part, names: frozenset[str]) -> dict[str, Any]:
    return normalized(render(part.base, [item.path for item in components_of(part) if item.name in names]))


def normalized(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return objects by identity, without the parts in which a chart differs, and with volumes in a fixed order."""
    result: dict[str, Any] = {}
    for item in map(without_hash, objects):
        item["metadata"].get("annotations", {}).pop(RESOURCE_POLICY, None)
        if item["metadata"].get("annotations") == {}:
            del item["metadata"]["annotations"]
        template = item.get("spec", {}).get("template", {})
        metadata = template.get("metadata", {})
        metadata["annotations"] = {
            key: value for key, value in metadata.get("annotations", {}).items() if key != "checksum/settings"
        }
        pod = template.get("spec", {})
        for container in pod.get("containers", ()):
            for key in {"volumeMounts", "env"} & container.keys():
                container[key].sort(key=json.dumps)
        if "volumes" in pod:
            pod["volumes"].sort(key=json.dumps)
        result[f"{item['kind']}/{item['metadata']['name']}"] = item
    return json.loads(json.dumps(result, sort_keys=True))


@pytest.mark.long
@each_part
def test_a_part_is_that_of_kustomize(part: Part) -> None:
    """Without Helm: fields with their conditions give the same objects as kustomize, also for new combinations.

    Each component is a documented value, which is on if the component is a default, and the schema accepts only these
    values. This is a single test, since rendering all combinations takes seconds.
    """
    chart = chart_of(part)
    for label, names in choices(part).items():
        assert normalized(chart.objects_with(names)) == expected_objects(part, names), label
    text = write_values([chart])
    switches = yaml.safe_load(text)[part.name]["components"]
    assert switches.keys() == {camel_case(component.name) for component in components_of(part)}
    assert {name for name, on in switches.items() if on} == {camel_case(name) for name in chart.defaults()}
    check_comments(text)
    check_schema(chart)


def check_comments(text: str) -> None:
    """Check that each value has a comment before it."""
    lines = text.splitlines()
    values = [index for index, line in enumerate(lines) if line.startswith("  ") and not line.lstrip().startswith("#")]
    assert values
    assert [lines[index] for index in values if not lines[index - 1].lstrip().startswith("#")] == []


def check_schema(chart: PartTemplate) -> None:
    """Check that the schema accepts the default values, and rejects unknown keys and wrong types."""
    document = schema([chart])
    name = chart.part.name
    values = yaml.safe_load(write_values([chart]))
    jsonschema.Draft7Validator.check_schema(document)
    jsonschema.validate(values, document)
    for key, value in (("enabled", "yes"), ("enabld", True), ("image", {"tag": 1}), ("components", {"gpus": True})):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({name: values[name] | {key: value}}, document)


@each_part
def test_the_schema_accepts_the_settings_of_the_manifests_and_only_known_keys(part: Part) -> None:
    """Helm then rejects a misspelled key, with which each new pod would stop."""
    unrendered = PartTemplate(part, components_of(part), [], {})
    document, name = schema([unrendered]), part.name
    own = yaml.safe_load((MANIFESTS / part.base / part.settings).read_text())
    nested = {"tls": {"cert": "/c", "key": "/k"}}
    for settings in (own, own | nested, {"tls.cert": "/c", "apiServer": "https://h", "logLevel": "debug"}):
        jsonschema.validate({name: {"settings": settings}}, document)
    for settings in ({"logLevl": "debug"}, {"tls": {"crt": "/c"}}):
        with pytest.raises(jsonschema.ValidationError, match="Additional properties are not allowed"):
            jsonschema.validate({name: {"settings": settings}}, document)


def test_every_component_is_in_one_part() -> None:
    paths = [component.path for part in PARTS for component in components_of(part)]
    directories = [
        path.parent for path in MANIFESTS.rglob("kustomization.yaml") if "kind: Component" in path.read_text()
    ]
    assert sorted(paths) == sorted(str(path.relative_to(MANIFESTS)) for path in directories)


@pytest.mark.parametrize(
    ("version", "expected"), [("0.1.0", "0.1.0"), ("0.1.0.dev0", "0.1.0-dev0"), ("1.2.3rc1", "1.2.3-rc1")]
)
def test_versions_are_semantic(version: str, expected: str) -> None:
    assert semantic(version) == expected


# --- Helm


@pytest.fixture(scope="module")
def helm() -> str:
    program = os.environ.get("TEST_ASSET_HELM") or shutil.which("helm")
    if program is None:
        pytest.skip("no helm on PATH: set TEST_ASSET_HELM")
    return program


@pytest.fixture(scope="module")
def chart_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("chart")
    for name, content in chart_files([chart_of(part) for part in PARTS], VERSION, ""):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(content)
    return directory


def helm_objects(helm: str, chart: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Return the objects that Helm renders, without the common namespace if the agent is disabled."""
    command = [helm, "template", "--kube-version", "1.34.0", "zonewise", str(chart), "--values", "-"]
    result = subprocess.run(
        command, input=yaml.safe_dump(values), capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    objects = normalized([item for item in yaml.load_all(result.stdout, yaml.CSafeLoader) if item])
    if not values.get("agent", {}).get("enabled", True):
        del objects["Namespace/zonewise"]
    return objects


def values_of(part: Part, names: frozenset[str]) -> dict[str, Any]:
    """Return values with one part, and a choice of its components."""
    switches = {camel_case(item.name): item.name in names for item in components_of(part)}
    values: dict[str, Any] = {other.name: {"enabled": other == part} for other in PARTS}
    return values | {part.name: {"enabled": True, "components": switches, "image": {"tag": "0.1.0"}}}


@pytest.mark.long
@each_part
def test_helm_renders_the_same_objects_as_kustomize(helm: str, chart_directory: Path, part: Part) -> None:
    for label, names in choices(part).items():
        assert helm_objects(helm, chart_directory, values_of(part, names)) == expected_objects(part, names), label


@pytest.mark.long
@each_part
def test_helm_renders_each_single_component(helm: str, chart_directory: Path, part: Part) -> None:
    for names in single_choices(part):
        assert helm_objects(helm, chart_directory, values_of(part, names)) == expected_objects(part, names), names


@pytest.mark.long
def test_helm_puts_values_where_they_belong(helm: str, chart_directory: Path) -> None:
    """Image, resources and settings of values override those of the manifests, even if empty, and the rest remains."""
    settings = {"interval": "5s", "logFormat": ""}
    values = {
        "agent": {
            "image": {"repository": "ghcr.io/example/zonewise"},
            "resources": {"requests": {"cpu": 0}, "limits": {"memory": "1Gi"}},
            "settings": settings,
        }
    }
    objects = helm_objects(helm, chart_directory, values)
    [container] = objects["DaemonSet/zonewise-agent"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"ghcr.io/example/zonewise:{VERSION}"
    assert container["resources"] == {"requests": {"cpu": 0, "memory": "48Mi"}, "limits": {"memory": "1Gi"}}
    merged = yaml.safe_load(objects["ConfigMap/zonewise-agent"]["data"]["agent.yaml"])
    own = yaml.safe_load((MANIFESTS / "base/agent.yaml").read_text())
    assert merged == own | settings


@pytest.mark.long
def test_empty_values_win_over_those_of_the_manifests(chart_directory: Path) -> None:
    """Sprig's `merge` would treat "", 0 and false as absent; `mergeOverwrite` writes all values over its first map."""
    for part in PARTS:
        text = template_of(chart_directory, part)
        merges = re.findall(r"\bmerge\w* \(\w+", text)
        assert set(merges) == {"mergeOverwrite (fromJson", "mergeOverwrite (fromYaml"}


def template_of(chart: Path, part: Part) -> str:
    return (chart / "templates" / f"{part.name}.yaml").read_text()


@pytest.mark.parametrize(
    "part",
    [pytest.param(part, marks=[pytest.mark.long] if part.name == "agent" else []) for part in PARTS],
    ids=[part.name for part in PARTS],
)
def test_definitions_outlive_the_release(part: Part) -> None:
    """Otherwise, `helm uninstall`, or an upgrade without the part, would delete every object of these kinds."""
    chart = chart_of(part)
    objects = chart.objects_with(frozenset(component.name for component in chart.components))
    definitions = [item["metadata"] for item in objects if item["kind"] == "CustomResourceDefinition"]
    assert definitions
    assert [item["name"] for item in definitions if item["annotations"].get(RESOURCE_POLICY) != "keep"] == []


@pytest.mark.long
def test_the_chart_creates_its_namespace_without_the_agent(chart_directory: Path) -> None:
    """The other parts use the namespace, so `agent.enabled=false` neither omits nor deletes it."""
    agent, *_ = PARTS
    of_agent = template_of(chart_directory, agent).index("{{- if .Values.agent.enabled }}")
    assert "kind: Namespace\n" in template_of(chart_directory, agent)[:of_agent]


@pytest.mark.long
def test_a_release_in_the_chart_namespace_does_not_create_it(chart_directory: Path) -> None:
    """Helm has already created it, so `helm install --namespace zonewise --create-namespace` would fail."""
    for part in PARTS:
        text = template_of(chart_directory, part)
        documents = re.split(r"^---$", text, flags=re.MULTILINE)
        namespaces = [i for i, document in enumerate(documents) if re.search("^kind: Namespace$", document, re.M)]
        assert [documents[i - 1].rstrip().splitlines()[-1] for i in namespaces] == [
            '{{- if ne .Release.Namespace "zonewise" }}' for _ in namespaces
        ]
        assert bool(namespaces) == (part.name == "agent")


@pytest.mark.long
def test_helm_installs_upgrades_and_removes(
    helm: str, chart_directory: Path, real_server: RealServer, tmp_path: Path
) -> None:
    """On a real API server, in either namespace, with all parts; an upgrade changes a value. Definitions remain."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(administrator(real_server)))
    parts = ["--set", ",".join(f"{part.name}.enabled=true" for part in PARTS)]

    def run_helm(*arguments: str) -> str:
        command = [helm, *arguments, "--kubeconfig", str(kubeconfig)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def agents() -> list[Any]:
        return real_server.admin.get("/apis/apps/v1/daemonsets").ok()["items"]

    def definitions() -> list[str]:
        return [item["metadata"]["name"] for item in real_server.admin.get(DEFINITIONS).ok()["items"]]

    run_helm("install", "zonewise", str(chart_directory), *parts)
    installed = definitions()
    run_helm("upgrade", "zonewise", str(chart_directory), "--set", "scheduler.enabled=false,queue.enabled=false")
    assert definitions() == installed
    run_helm("upgrade", "zonewise", str(chart_directory), *parts, "--set", "agent.image.tag=9.9.9")
    [agent] = agents()
    assert agent["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":9.9.9")
    run_helm("rollback", "zonewise", "1")
    run_helm("uninstall", "zonewise")
    assert agents() == []
    assert definitions() == installed
    # no controller removes the namespace here
    path = "/api/v1/namespaces/zonewise"
    namespace = real_server.admin.get(path).ok()
    real_server.admin.put(f"{path}/finalize", namespace | {"spec": {"finalizers": []}}).ok()
    inside = ["--namespace", "zonewise", "--create-namespace"]
    # the definitions belong to a release in another namespace
    command = ["install", "zonewise", str(chart_directory), *parts, *inside, "--take-ownership"]
    assert "pod-security.kubernetes.io" in run_helm(*command)
    assert len(agents()) == 1
    run_helm("uninstall", "zonewise", *inside[:2])
    assert agents() == []


def administrator(server: RealServer) -> dict[str, Any]:
    """Return the kubeconfig of a server's administrator."""
    return {
        "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority": server.ca}}],
        "users": [{"name": "u", "user": {"token": server.token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


@pytest.mark.long
def test_helm_rejects_unknown_values_and_lints(helm: str, chart_directory: Path) -> None:
    command = [
        helm,
        "template",
        "--kube-version",
        "1.34.0",
        "zonewise",
        str(chart_directory),
        "--set",
        "agent.enabld=true",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1
    assert "enabld" in result.stderr
    subprocess.run([helm, "lint", "--strict", str(chart_directory)], check=True, capture_output=True, timeout=60)


# --- install*.yaml


@each_part
def test_install_files_name_the_release(part: Part) -> None:
    """All of our images are in the registry, and have the version as their tag."""
    kubectl()
    images = re.findall(r"image: (.*zonewise.*)", install_file(part.default, VERSION, "ghcr.io/example/"))
    name = "zonewise" if part.name == "agent" else "zonewise-scheduler"
    assert images == [f"ghcr.io/example/{name}:{VERSION}"]


@pytest.mark.long
def test_two_runs_give_equal_bytes() -> None:
    kubectl()
    files = release_files(VERSION, "ghcr.io/example/")
    assert files == release_files(VERSION, "ghcr.io/example/")
    assert set(files) == {"install.yaml", "install-scheduler.yaml", "install-queue.yaml", f"zonewise-{VERSION}.tgz"}


def test_a_server_accepts_and_stores_the_install_files(embedded_server: ApiServer, tmp_path: Path) -> None:
    """`kubectl apply --server-side -f` applies each file to one cluster; a second run changes nothing."""
    kubectl()
    for part in PARTS:
        file = tmp_path / part.install
        items = [item for item in yaml.load_all(install_file(part.default, VERSION, ""), yaml.CSafeLoader) if item]
        for item in items:
            for webhook in item.get("webhooks", ()):
                webhook.pop("matchConditions", None)  # the server in memory does not evaluate CEL
        file.write_text(yaml.safe_dump_all(items))
        count = len(items)
        assert len(kubectl_apply(embedded_server, file, tmp_path)) == count
        before = versions_of(embedded_server, file, tmp_path)
        kubectl_apply(embedded_server, file, tmp_path)
        assert versions_of(embedded_server, file, tmp_path) == before
        assert len(before.split()) == count


def kubectl_apply(server: ApiServer, file: Path, home: Path) -> list[str]:
    return run_kubectl(server, home, "apply", "--server-side", "--validate=false", "-f", str(file)).splitlines()


def versions_of(server: ApiServer, file: Path, home: Path) -> str:
    return run_kubectl(server, home, "get", "-f", str(file), "-o", "jsonpath={.items[*].metadata.resourceVersion}")


def run_kubectl(server: ApiServer, home: Path, *arguments: str) -> str:
    result = subprocess.run(
        [kubectl(), *arguments, f"--server={server.url}"],
        env={"HOME": str(home), "PATH": os.environ.get("PATH", "")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
