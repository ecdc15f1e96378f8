"""The scheduler's manifests: one restricted pod, the rights that it needs, and valid settings and configurations."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.manifests import (
    MANIFESTS,
    NAMESPACE,
    Object,
    check_probes,
    combined,
    components,
    kustomized,
    mounts_of,
    objects,
    of_kind,
    overlays,
    parsed,
    rights,
)
from support.programs import find_program, missing_program
from support.snapshots import PROJECT
from zonewise_common.service.tls import Certificates
from zonewise_scheduler.extender.placing.placer import REASONS
from zonewise_scheduler.extender.settings import DEFAULT_FILE, OPTIONS, ExtenderSettings, read_settings
from zonewise_scheduler.extender.state.nominated_pods import NOMINATED
from zonewise_scheduler.extender.tables import diagnosis

if TYPE_CHECKING:
    from pathlib import Path

ACCOUNT = "zonewise-scheduler"
ALONE, BOTH = "scheduler/overlays/extender", "scheduler"
BIND = "scheduler/components/bind"
AUTH = ("scheduler/components/pod-monitor", "scheduler/components/metrics-auth")
WORKLOADS = ("DaemonSet", "Deployment")
EXAMPLE = MANIFESTS / "scheduler" / "examples" / "kube-scheduler-configuration.yaml"
DEPLOY_AGENT = (PROJECT / "docs/guides/deploy-agent.md").read_text()
DEPLOY = (PROJECT / "docs/guides/deploy-scheduler.md").read_text()
EXTENDER = (PROJECT / "docs/guides/extender.md").read_text()

OWN = {
    *((verb, thing, "*") for verb in ("list", "watch") for thing in ("/nodes", "/pods")),
    *((verb, "topology.node.k8s.io/noderesourcetopologies", "*") for verb in ("list", "watch")),
    *(
        (verb, f"{group}/podgroups", "*")
        for verb in ("list", "watch")
        for group in ("scheduling.x-k8s.io", "scheduling.k8s.io")
    ),
    ("patch", "/pods/status", "*"),
    ("get", "/pods", "*"),
    ("create", "/pods/binding", "*"),
    ("create", "/events", "*"),
    ("delete", "/pods", "*"),
    *((verb, "policy/poddisruptionbudgets", "*") for verb in ("list", "watch")),
}
OF_KUBE_SCHEDULER = {
    ("as", "system:kube-scheduler", "*"),
    ("as", "system:volume-scheduler", "*"),
    ("as", "extension-apiserver-authentication-reader", "kube-system"),
}
BINDS = {("create", "/pods/binding", "*")}
RIGHTS = {ALONE: OWN, BOTH: OWN | OF_KUBE_SCHEDULER}

each_overlay = pytest.mark.parametrize("overlay", overlays("scheduler"))
each_way = pytest.mark.parametrize("bind", [False, True], ids=["", "bind"])


def made_of(overlay: str, *, bind: bool = False) -> list[Object]:
    return combined(overlay, BIND) if bind else objects(overlay)


def pod_of(manifests: list[Object]) -> Object:
    [deployment] = of_kind(manifests, "Deployment")
    return deployment["spec"]["template"]["spec"]


def ours(manifests: list[Object]) -> Object:
    [container] = [one for one in pod_of(manifests)["containers"] if one["name"] == "zonewise"]
    return container


def files_of(manifests: list[Object], directory: str = os.path.dirname(DEFAULT_FILE)) -> dict[str, str]:
    """Return the files in a directory of the pod, by name."""
    [mount] = [one for one in ours(manifests)["volumeMounts"] if one["mountPath"] == directory]
    [volume] = [one for one in pod_of(manifests)["volumes"] if one["name"] == mount["name"]]
    [config_map] = [
        one for one in of_kind(manifests, "ConfigMap") if one["metadata"]["name"] == volume["configMap"]["name"]
    ]
    return config_map["data"]


def settings_of(manifests: list[Object]) -> ExtenderSettings:
    flags = OPTIONS.flag_values(parsed(ours(manifests)["args"]))
    return read_settings(flags, {}, files_of(manifests)[os.path.basename(DEFAULT_FILE)])


def test_all_parts_are_covered() -> None:
    """These tests cover every overlay and component."""
    assert {*overlays("scheduler")} == {ALONE, BOTH}
    names = ("alerts", "bind", "kube-scheduler", "kueue-crds", "metrics-auth", "pod-groups", "pod-monitor")
    assert components("scheduler") == [f"scheduler/components/{name}" for name in names]


# --- rights


@each_overlay
@each_way
def test_rights(overlay: str, *, bind: bool) -> None:
    """The account may read, requeue and preempt; overlays and components add kube-scheduler's rights and binding."""
    assert rights(made_of(overlay, bind=bind), ACCOUNT) == RIGHTS[overlay] | (BINDS if bind else set())


@each_overlay
def test_every_object_is_the_schedulers_own(overlay: str) -> None:
    """The name and labels of every object are the scheduler's; namespace and CRD are in the agent's manifests."""
    manifests = objects(overlay)
    assert not of_kind(manifests, "Namespace")
    assert not of_kind(manifests, "CustomResourceDefinition")
    for one in manifests:
        assert one["metadata"]["name"].startswith(("zonewise-scheduler", "zonewise-extender"))
        assert one["metadata"]["labels"]["app.kubernetes.io/name"] == "zonewise-scheduler"
        namespace = "kube-system" if "authentication-reader" in one["metadata"]["name"] else NAMESPACE
        assert one["metadata"].get("namespace", namespace) == namespace


@each_overlay
def test_the_manifests_can_be_combined_with_the_agents(overlay: str) -> None:
    """One kustomization can contain both, since no object is in both."""
    manifests = objects(".") + objects(overlay)
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in manifests]
    assert len(names) == len(set(names))


# --- the pod


@each_overlay
def test_the_pod_is_restricted(overlay: str) -> None:
    """No root user, capabilities or host resources, one writable directory, and the runtime's seccomp profile."""
    pod = pod_of(objects(overlay))
    assert not {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "initContainers"} & set(pod)
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        writable = {one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")}
        assert writable == ({"/mispredictions"} if container["name"] == "zonewise" else set())
        assert not any("hostPort" in port for port in container["ports"])


@each_overlay
def test_there_is_one_replica(overlay: str) -> None:
    """Two replicas would assign the same zones, so there is only one. If its node fails, it soon moves."""
    manifests = objects(overlay)
    [deployment] = of_kind(manifests, "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    pod = pod_of(manifests)
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    gone = {one["key"]: one["tolerationSeconds"] for one in pod["tolerations"] if one["effect"] == "NoExecute"}
    assert gone == {"node.kubernetes.io/not-ready": 30, "node.kubernetes.io/unreachable": 30}


@each_overlay
def test_the_resources(overlay: str) -> None:
    """The memory suffices for the largest cluster, and CPU has no limit."""
    assert ours(objects(overlay))["resources"] == {
        "requests": {"cpu": "100m", "memory": "256Mi"},
        "limits": {"memory": "1Gi"},
    }


@each_overlay
@each_way
def test_the_program_accepts_its_arguments_and_settings(overlay: str, *, bind: bool) -> None:
    """The program knows every argument and setting, together they are valid, and each file is in a mount."""
    manifests = made_of(overlay, bind=bind)
    settings, container = settings_of(manifests), ours(manifests)
    assert parsed(container["args"]).extender_only
    assert settings.bind is bind
    mounts = mounts_of(pod_of(manifests), container)
    files = [settings.tls_cert, settings.tls_key, settings.tls_client_ca]
    assert all(os.path.dirname(file) in mounts for file in files if file)
    assert settings.misprediction_dir in mounts
    assert settings.log_format == "json"


def test_the_settings_repeat_defaults() -> None:
    """The file repeats defaults, except for the log format, the misprediction directory and the files for TLS."""
    plain = ExtenderSettings(log_format="json", misprediction_dir="/mispredictions")
    assert settings_of(objects(BOTH)) == plain
    over_tls = settings_of(objects(ALONE))
    assert over_tls == plain._replace(
        listen=":9810",
        tls_cert="/etc/zonewise-tls/tls.crt",
        tls_key="/etc/zonewise-tls/tls.key",
        tls_client_ca="/etc/zonewise-tls/ca.crt",
    )


@each_overlay
def test_the_ports(overlay: str) -> None:
    """Metrics are open. The extender listens on loopback next to its kube-scheduler, or else demands certificates."""
    manifests = objects(overlay)
    settings = settings_of(manifests)
    ports = {port["name"]: port["containerPort"] for port in ours(manifests)["ports"]}
    host, _, number = settings.listen.rpartition(":")
    opened = {"metrics": int(settings.metrics_listen.rpartition(":")[2])}
    if overlay == ALONE:
        assert settings.tls_client_ca
        opened["extender"] = int(number)
    else:
        assert host == "127.0.0.1"
    assert ports == opened
    [policy] = of_kind(manifests, "NetworkPolicy")
    [rule] = policy["spec"]["ingress"]
    assert {port["port"] for port in rule["ports"]} == set(opened)
    served = {
        port["targetPort"]: port["port"] for one in of_kind(manifests, "Service") for port in one["spec"]["ports"]
    }
    assert served == opened


@each_overlay
def test_selectors(overlay: str) -> None:
    """The Services, the NetworkPolicy and the Deployment select this pod."""
    manifests = objects(overlay)
    [deployment] = of_kind(manifests, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    selectors = [deployment["spec"]["selector"]["matchLabels"]]
    selectors += [one["spec"]["selector"] for one in of_kind(manifests, "Service")]
    selectors += [one["spec"]["podSelector"]["matchLabels"] for one in of_kind(manifests, "NetworkPolicy")]
    assert all(selector.items() <= labels for selector in selectors)
    assert not labels & {("app.kubernetes.io/name", "zonewise-agent")}


@each_overlay
def test_the_probes(overlay: str) -> None:
    """Probes use endpoints without a token, over TLS exactly if TLS is served."""
    manifests = objects(overlay)
    scheme = "HTTPS" if settings_of(manifests).tls_cert else "HTTP"
    check_probes(ours(manifests), scheme)


@each_overlay
def test_metrics_for_bearers_of_a_token(overlay: str) -> None:
    """Metrics have a separate certificate, probes use TLS, and the account may review tokens."""
    manifests = combined(overlay, *AUTH)
    settings, container = settings_of(manifests), ours(manifests)
    assert settings.metrics_auth == "token"
    assert (settings.tls_cert, settings.listen) == (settings_of(objects(overlay)).tls_cert, settings.listen)
    mounts = mounts_of(pod_of(manifests), container)
    for file in (settings.metrics_tls_cert, settings.metrics_tls_key):
        assert mounts[os.path.dirname(file)][1]["secret"]["secretName"] == "zonewise-scheduler-tls"
    schemes = {container[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "liveness", "readiness")}
    assert schemes == {"HTTPS"}
    reviews = {"authentication.k8s.io/tokenreviews", "authorization.k8s.io/subjectaccessreviews"}
    assert rights(manifests, ACCOUNT) == RIGHTS[overlay] | {("create", review, "*") for review in reviews}
    assert rights(manifests, "zonewise-scheduler-metrics-reader") == {("get", "/metrics", "*")}
    [monitor] = of_kind(manifests, "PodMonitor")
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"]["credentials"]["name"] == "zonewise-scheduler-metrics-reader"
    [service] = [one for one in of_kind(manifests, "Service") if one["metadata"]["name"] == "zonewise-scheduler"]
    assert endpoint["tlsConfig"]["serverName"] == f"{service['metadata']['name']}.{NAMESPACE}.svc"
    agent = {(one["kind"], one["metadata"]["name"]) for one in objects("overlays/prometheus")}
    assert not agent & {(one["kind"], one["metadata"]["name"]) for one in manifests}


# --- docs/guides/deploy-scheduler.md and docs/guides/extender.md


def test_kustomizations_of_the_guides() -> None:
    """Each kustomization in the guides renders, uses images from a registry, and names the node if necessary."""
    yaml_blocks = re.findall(r"```yaml\n(.*?)```", DEPLOY_AGENT + DEPLOY, re.DOTALL)
    blocks = [block for block in yaml_blocks if "kustomization.yaml" in block]
    rendered = [kustomized(yaml.safe_load(block.replace("zonewise/manifests", "."))) for block in blocks]
    assert len(rendered) == 3
    nodes = [pod_of(manifests).get("nodeName") for manifests in rendered if of_kind(manifests, "Deployment")]
    assert nodes == [None, "control-plane-1"]
    for manifests, block in zip(rendered, blocks, strict=True):
        chosen = {f"{one.get('newName', one['name'])}:{one['newTag']}" for one in yaml.safe_load(block)["images"]}
        assert chosen <= {
            container["image"] for one in manifests if one["kind"] in WORKLOADS for container in of_pod(one)
        }


def of_pod(one: Object) -> list[Object]:
    return one["spec"]["template"]["spec"]["containers"]


def test_messages_of_the_guide() -> None:
    """The explained messages are those of the scheduler, word for word."""
    said = " ".join(
        (
            *diagnosis.LEDGER_REASONS.values(),
            diagnosis.NO_REPORT,
            diagnosis.STALE_REPORT,
            REASONS[NOMINATED],
            "would reject it: needs 6 CPUs",
        )
    )
    [_, table] = EXTENDER.split("| 16 node(s) ... | meaning |\n|---|---|\n")
    explained = re.findall(r"^\| (.+?) \| ", table, re.MULTILINE)[:5]
    assert len(explained) == 5
    assert [words for words in explained if words.split(" in one zone")[0] not in said] == []


def test_certificates_of_the_guide(tmp_path: Path) -> None:
    """The commands create a CA and a certificate for each side; both accept each other, but no client without one."""
    openssl = shutil.which("openssl")
    if openssl is None or b"OpenSSL 3" not in subprocess.check_output([openssl, "version"]):
        pytest.skip("no openssl 3")
    [block] = [block for block in re.findall(r"```console\n(.*?)```", DEPLOY, re.DOTALL) if "$side.crt" in block]
    commands = re.sub(r"^\$ ", "", block.partition("$ kubectl")[0], flags=re.MULTILINE).replace("3072", "2048")
    subprocess.run(["bash", "-e", "-c", commands], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    ca, name = str(tmp_path / "ca.crt"), example()["extenders"][0]["tlsConfig"]["serverName"]
    server = Certificates(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"), ca).context()
    client = ssl.create_default_context(cafile=ca)
    client.verify_flags &= ~ssl.VERIFY_X509_STRICT  # default since Python 3.13; kube-scheduler verifies without it
    assert shaken_hands(server, client, name) is False
    client.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    assert shaken_hands(server, client, name) is True


def shaken_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> bool:
    """Return whether a TLS handshake between both sides succeeds."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return sides[1].getpeercert() is not None


# --- kube-scheduler


def beside(*, bind: bool = False) -> tuple[Object, Object]:
    """Return the container of kube-scheduler in our pod, and its configuration."""
    manifests = made_of(BOTH, bind=bind)
    [container] = [one for one in pod_of(manifests)["containers"] if one["name"] == "kube-scheduler"]
    [config] = [one.removeprefix("--config=") for one in container["args"] if one.startswith("--config=")]
    return container, yaml.safe_load(files_of(manifests, os.path.dirname(config))[os.path.basename(config)])


def example() -> Object:
    return yaml.safe_load(EXAMPLE.read_text())


def test_the_image_of_kube_scheduler_can_be_chosen() -> None:
    """The image is a published release, with the name in docs/guides/deploy-scheduler.md."""
    container, _ = beside()
    name, _, tag = container["image"].partition(":")
    assert name == "registry.k8s.io/kube-scheduler"
    assert re.fullmatch(r"v1\.\d+\.\d+", tag)
    assert f"name: {name}\n    newTag: {tag} " in DEPLOY


def test_probes_of_kube_scheduler() -> None:
    """Probes use kube-scheduler's own endpoints, over TLS, at its port."""
    container, _ = beside()
    assert [(port["name"], port["containerPort"]) for port in container["ports"]] == [("kube-scheduler", 10259)]
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert [probe["path"] for probe in probes] == ["/livez", "/livez", "/readyz"]
    assert {(probe["port"], probe["scheme"]) for probe in probes} == {("kube-scheduler", "HTTPS")}


@each_way
def test_the_configuration_is_for_this_extender(*, bind: bool) -> None:
    """kube-scheduler calls the extender at its address, has only the profile `zonewise`, and elects no leader."""
    _, manifests = beside(bind=bind)
    [asked] = manifests["extenders"]
    assert asked["urlPrefix"] == f"http://{ExtenderSettings().listen}"
    assert asked.get("bindVerb") == ("bind" if bind else None)
    assert [profile["schedulerName"] for profile in manifests["profiles"]] == ["zonewise"]
    assert manifests["leaderElection"] == {"leaderElect": False}


def test_binding_changes_nothing_else() -> None:
    """The component only adds a verb to the configuration."""
    _, plain = beside()
    _, binding = beside(bind=True)
    assert binding["extenders"][0].pop("bindVerb") == "bind"
    assert binding == plain


def test_the_example_is_for_the_overlay() -> None:
    """kube-scheduler calls the extender only over TLS, with the name of the Service and a client certificate."""
    [asked] = example()["extenders"]
    [service] = [one for one in of_kind(objects(ALONE), "Service") if one["spec"].get("clusterIP") != "None"]
    assert asked["urlPrefix"].partition("://")[0] == "https"
    assert asked["enableHTTPS"] is True
    assert int(asked["urlPrefix"].rpartition(":")[2]) == service["spec"]["ports"][0]["port"]
    tls = asked["tlsConfig"]
    assert tls["serverName"] == f"{service['metadata']['name']}.{NAMESPACE}.svc"
    assert {"caFile", "certFile", "keyFile"} < set(tls)


@pytest.mark.parametrize("configuration", [beside, example])
def test_both_configurations_query_the_extender_alike(configuration: Any) -> None:
    """Both query the extender for all nodes and pods, by name, and schedule no pod without it."""
    found: Object = configuration()[1] if configuration is beside else configuration()
    [asked] = found["extenders"]
    assert found["percentageOfNodesToScore"] == 100
    assert (asked["filterVerb"], asked["prioritizeVerb"], asked["weight"]) == ("filter", "prioritize", 1)
    assert asked["nodeCacheCapable"] is True
    assert asked["ignorable"] is False
    assert asked["preemptVerb"] == "preempt"
    assert "managedResources" not in asked


@pytest.mark.parametrize("bind", [False, True, None], ids=["", "bind", "example"])
def test_kube_scheduler_accepts_the_configuration(bind: bool | None, tmp_path: Path) -> None:
    """A real kube-scheduler decodes it strictly, accepts it, and writes it with its defaults added."""
    binary = find_program("kube-scheduler")
    if binary is None:
        pytest.skip(missing_program("kube-scheduler"))
    given = example() if bind is None else beside(bind=bind)[1]
    asked = given["extenders"][0]
    given["clientConnection"] = {**given["clientConnection"], "kubeconfig": str(tmp_path / "kubeconfig")}
    asked.pop("tlsConfig", None)  # kube-scheduler would read its files
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(NOWHERE))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(given))
    command = [binary, f"--config={tmp_path}/config.yaml", f"--write-config-to={tmp_path}/said.yaml", "--secure-port=0"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    said = yaml.safe_load((tmp_path / "said.yaml").read_text())
    assert said["extenders"] == [{name: value for name, value in asked.items() if value}]
    assert said["percentageOfNodesToScore"] == 100
    assert said["leaderElection"]["leaderElect"] is (bind is None)
    assert [profile["schedulerName"] for profile in said["profiles"]] == [
        "zonewise" if bind is not None else "default-scheduler"
    ]


NOWHERE: Object = {
    "apiVersion": "v1", "kind": "Config", "current-context": "none",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
}  # fmt: skip
