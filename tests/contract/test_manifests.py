"""The manifests: every overlay renders with the expected content, and gives the agent only the rights that it needs."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from support.machines import ALL
from support.manifests import (
    ACCOUNT,
    MANIFESTS,
    NAMESPACE,
    Object,
    combined,
    components,
    containers,
    mounts_of,
    objects,
    of_kind,
    overlays,
    parsed,
    rights,
)
from support.snapshots import PROJECT
from tools.chart.chart import OWN_IMAGES
from zonewise.daemon.settings import read_settings
from zonewise.objects.labels import machine_to_labels

COMMON_RIGHTS = {
    ("get", "/nodes", "*"),
    ("get", "/nodes/configz", "*"),
    *(
        (verb, "topology.node.k8s.io/noderesourcetopologies", "*")
        for verb in ("get", "list", "watch", "create", "patch")
    ),
    *((verb, "/events", "default") for verb in ("create", "patch")),
}
ON_NODE = {("patch", "/nodes", "*")}
BY_NFD = {
    ("get", "/pods", NAMESPACE),
    *((verb, "nfd.k8s-sigs.io/nodefeatures", NAMESPACE) for verb in ("get", "create", "patch", "delete")),
}
REVIEWS = {
    ("create", "authentication.k8s.io/tokenreviews", "*"),
    ("create", "authorization.k8s.io/subjectaccessreviews", "*"),
}
RIGHTS = {
    ".": COMMON_RIGHTS | ON_NODE | BY_NFD,
    "overlays/default": COMMON_RIGHTS | ON_NODE | BY_NFD,
    "overlays/dev": COMMON_RIGHTS | ON_NODE | BY_NFD,
    "overlays/gpu": COMMON_RIGHTS | ON_NODE | BY_NFD,
    "overlays/prometheus": COMMON_RIGHTS | ON_NODE | BY_NFD | REVIEWS,
    "overlays/with-nfd": COMMON_RIGHTS | BY_NFD,
    "overlays/without-nfd": COMMON_RIGHTS | ON_NODE,
}

each_overlay = pytest.mark.parametrize("overlay", overlays())


def policy() -> Object:
    return next(yaml.safe_load_all((MANIFESTS / "base" / "own-node.yaml").read_text()))


def variable(name: str) -> str:
    return next(one["expression"] for one in policy()["spec"]["variables"] if one["name"] == name)


# --- the files


def test_every_file_is_used() -> None:
    """The kustomization in the same directory names each file, and each name is a file or directory."""
    for kustomization in MANIFESTS.rglob("kustomization.yaml"):
        content = yaml.safe_load(kustomization.read_text())
        named = {*content.get("resources", ()), *content.get("components", ())}
        for generator in content.get("configMapGenerator", ()):
            named |= set(generator["files"])
        named |= {patch["path"] for patch in content.get("patches", ()) if "path" in patch}
        place = kustomization.parent
        assert [name for name in named if not (place / name).exists()] == []
        assert {file.name for file in place.glob("*.yaml")} - {"kustomization.yaml"} <= named


def test_every_component_is_documented() -> None:
    """The guides name each overlay and each component."""
    guide = "".join(file.read_text() for file in (PROJECT / "docs/guides").glob("deploy-*.md"))
    parts = [*overlays()[1:], *components(), *overlays("scheduler"), *components("scheduler"), *components("queue")]
    assert [name for name in parts if f"`{name}`" not in guide] == []


@pytest.mark.parametrize("file", sorted(MANIFESTS.rglob("agent.yaml")), ids=lambda file: file.parent.name)
def test_settings_files_are_valid(file: Any) -> None:
    """The agent accepts the settings files, which only repeat defaults, except for format, labels and features."""
    defaults, settings = read_settings({}, {}, None), read_settings({}, {}, file.read_text())
    chosen = {"publish_labels": defaults.publish_labels, "publish_features": defaults.publish_features}
    assert settings._replace(log_format="text", **chosen) == defaults


@pytest.mark.parametrize(
    "place",
    [
        "../docs/guides/deploy-agent.md",
        "../docs/guides/deploy-scheduler.md",
        "base/daemonset/daemonset.yaml",
        "scheduler/base/deployment.yaml",
    ],
)
def test_the_image_is_tagged_with_the_version(place: str) -> None:
    """Every version of the image is the newest one in the changelog."""
    found = re.findall(r"(?:zonewise(?:-scheduler)?:|newTag: )(\d[\w.]*)", (MANIFESTS / place).read_text())
    released = re.search(r"^## \[?(\d[\w.]*)", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released
    assert set(found) == {released[1]}


@pytest.mark.parametrize("place", [*overlays(), *overlays("scheduler"), "queue"])
def test_images_of_others_have_a_command(place: str) -> None:
    """We do not control their entry points: that of registry.k8s.io/kube-scheduler takes different arguments."""
    workloads = [one for one in objects(place) if one["kind"] in ("DaemonSet", "Deployment")]
    containers_of_all = [container for one in workloads for container in one["spec"]["template"]["spec"]["containers"]]
    foreign = [one for one in containers_of_all if one["image"].rpartition(":")[0] not in OWN_IMAGES]
    assert [one["name"] for one in foreign if "command" not in one] == []


def test_the_kube_scheduler_is_the_command_of_its_container() -> None:
    [deployment] = of_kind(objects("scheduler"), "Deployment")
    commands = {one["name"]: one.get("command") for one in deployment["spec"]["template"]["spec"]["containers"]}
    assert commands == {"zonewise": None, "kube-scheduler": ["kube-scheduler"]}


# --- rights


@each_overlay
def test_rights(overlay: str) -> None:
    """The agent has exactly these rights, without list, watch or wildcards."""
    assert rights(objects(overlay)) == RIGHTS[overlay]


def test_rights_for_labels_of_pods() -> None:
    """A separate component grants the right to read pods."""
    manifests = combined("overlays/without-nfd", "components/pod-labels")
    assert rights(manifests) - RIGHTS["overlays/without-nfd"] == {("get", "/pods", "*")}


def test_rights_for_rules() -> None:
    """Rules can be listed and watched, and extended resources are in the status; taints need no further right."""
    manifests = combined("overlays/with-nfd", "components/node-feature-rules", "components/node-feature-taints")
    assert rights(manifests) - RIGHTS["overlays/with-nfd"] == {
        ("list", "nfd.k8s-sigs.io/nodefeaturerules", "*"),
        ("watch", "nfd.k8s-sigs.io/nodefeaturerules", "*"),
        ("list", "nfd.k8s-sigs.io/nodefeaturegroups", "*"),
        ("watch", "nfd.k8s-sigs.io/nodefeaturegroups", "*"),
        ("patch", "/nodes", "*"),
        ("patch", "/nodes/status", "*"),
    }
    variables = {one["name"]: one["expression"] for one in own_node_policy(manifests)["spec"]["variables"]}
    for name in ("ownAnnotations", "ownResources", "ownTaints"):
        assert "feature[.]node[.]kubernetes[.]io" in variables[name]
    assert variables["ownLabels"] == variable("ownLabels")


def own_node_policy(manifests: list[Object]) -> Object:
    [found] = [one for one in of_kind(manifests, "ValidatingAdmissionPolicy") if "own-node" in one["metadata"]["name"]]
    return found


def test_the_reader_of_metrics() -> None:
    """The account may get the metrics, and has no other right."""
    manifests = objects("overlays/prometheus")
    assert rights(manifests, "zonewise-metrics-reader") == {("get", "/metrics", "*")}


@each_overlay
def test_the_policy_names_this_agent(overlay: str) -> None:
    """The policy is in every overlay, and its expressions name the account and the namespace."""
    manifests = objects(overlay)
    [found] = of_kind(manifests, "ValidatingAdmissionPolicy")
    [binding] = of_kind(manifests, "ValidatingAdmissionPolicyBinding")
    assert found == policy()
    assert binding["spec"] == {"policyName": found["metadata"]["name"], "validationActions": ["Deny"]}
    [condition] = found["spec"]["matchConditions"]
    accounts = [one["metadata"] for one in of_kind(manifests, "ServiceAccount") if one["metadata"]["name"] == ACCOUNT]
    [user] = [f"system:serviceaccount:{one['namespace']}:{one['name']}" for one in accounts]
    assert condition["expression"] == f"request.userInfo.username == '{user}'"
    assert {pod["serviceAccountName"] for pod, _ in containers(manifests)} == {ACCOUNT}
    assert found["spec"]["failurePolicy"] == "Fail"


@each_overlay
def test_the_policy_covers_every_right_to_write(overlay: str) -> None:
    """The policy matches every resource that the agent may write, except reviews."""
    rules = policy()["spec"]["matchConstraints"]["resourceRules"]
    watched = {f"{group}/{name}" for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
    written = {thing for verb, thing, _ in rights(objects(overlay)) if verb != "get"}
    assert written - {thing for _, thing, _ in REVIEWS} <= watched


@pytest.mark.parametrize("name", ALL)
def test_the_policy_permits_every_label(name: str) -> None:
    """The policy permits each label that the agent derives from a machine."""
    pattern = variable("ownLabels").strip("'")
    assert [label for label in machine_to_labels(ALL[name]()) if not re.search(pattern, label)] == []


# --- Prometheus


def test_the_pod_monitor_matches_the_metrics_server() -> None:
    """The PodMonitor uses TLS, with the name in the certificate and the token of the reader."""
    manifests = objects("overlays/prometheus")
    [monitor] = of_kind(manifests, "PodMonitor")
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    [service] = of_kind(manifests, "Service")
    [secret] = of_kind(manifests, "Secret")
    assert (endpoint["port"], endpoint["path"], endpoint["scheme"]) == ("metrics", "/metrics", "https")
    assert endpoint["tlsConfig"]["serverName"] == f"{service['metadata']['name']}.{NAMESPACE}.svc"
    assert endpoint["authorization"]["credentials"]["name"] == secret["metadata"]["name"]
    assert secret["metadata"]["annotations"] == {"kubernetes.io/service-account.name": "zonewise-metrics-reader"}
    [(_, container)] = containers(manifests)
    assert parsed(container["args"]).metrics_auth == "token"


def test_metrics_without_tokens() -> None:
    """Without other components, the PodMonitor uses neither TLS nor a token, and neither does the agent."""
    manifests = combined("overlays/default", "components/pod-monitor")
    [endpoint] = of_kind(manifests, "PodMonitor")[0]["spec"]["podMetricsEndpoints"]
    assert not {"scheme", "tlsConfig", "authorization"} & set(endpoint)
    assert rights(manifests) == RIGHTS["overlays/default"]


@pytest.mark.parametrize("overlay", ["overlays/with-nfd", "overlays/without-nfd"])
def test_components_combine(overlay: str) -> None:
    """If the component for GPUs comes first, the others apply to both DaemonSets, which share their settings."""
    parts = ("gpu", "pod-monitor", "metrics-auth", "kubelet-state", "k3s")
    manifests = combined(overlay, *(f"components/{part}" for part in parts))
    pods = containers(manifests)
    assert len(pods) == 2
    for pod, container in pods:
        mounts = mounts_of(pod, container)
        assert parsed(container["args"]).tls_cert == "/etc/zonewise-tls/tls.crt"
        assert "/var/lib/kubelet/pki" not in mounts
        assert mounts["/etc/zonewise"][1]["configMap"]["name"] == of_kind(manifests, "ConfigMap")[0]["metadata"]["name"]
    assert rights(manifests) == RIGHTS[overlay] | REVIEWS
