"""The agent's pods: restricted, once on every node, with mounts that it reads and settings that it accepts."""

from __future__ import annotations

import os

import pytest

from support.machines import ALL
from support.manifests import (
    NAMESPACE,
    Object,
    check_probes,
    combined,
    containers,
    mounts_of,
    objects,
    of_kind,
    overlays,
    parsed,
)
from zonewise.daemon.settings import DEFAULT_FILE, OPTIONS, Settings, read_settings
from zonewise.kubelet.state import device_checkpoint_path
from zonewise.machine.capture.recording import RecordingFiles
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.nfd.feature_files import FEATURES_DIRECTORY
from zonewise.nfd.worker_config import parse_worker_config
from zonewise.objects.labels import LabelConfig, machine_to_labels

KUBELET_PATHS = {f"/var/lib/kubelet/{name}" for name in ("pod-resources", "pods-api", "device-plugins")}
HOST_PATHS = {"/sys", "/etc/os-release", "/boot", "/lib/modules"} | KUBELET_PATHS
FEATURE_FILES = f"/{FEATURES_DIRECTORY}"
OF_NFD = ["overlays/with-nfd", "overlays/without-nfd"]
"""Overlays that replace NFD's workers, and read feature files."""
GPU_OPERATORS_WORKER = b"sources: {pci: {deviceLabelFields: [vendor]}}"
"""The part about GPU labels of the NFD worker's configuration in the chart of the NVIDIA GPU operator."""

each_overlay = pytest.mark.parametrize("overlay", overlays())


@each_overlay
def test_the_pod_is_restricted(overlay: str) -> None:
    """No privileges, capabilities or host namespaces, no writable file system, and the runtime's seccomp profile."""
    for pod, container in containers(objects(overlay)):
        assert not {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & set(pod)
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["securityContext"] == {
            "runAsUser": 0,
            "runAsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert not any("hostPort" in port for port in container["ports"])
        assert pod["automountServiceAccountToken"] is False


@each_overlay
def test_the_resources(overlay: str) -> None:
    """The limit of memory is twice the request, and larger with NVML for its child process; CPU has no limit."""
    for pod, container in containers(objects(overlay)):
        limit = "192Mi" if "runtimeClassName" in pod else "96Mi"
        assert container["resources"] == {"requests": {"cpu": "10m", "memory": "48Mi"}, "limits": {"memory": limit}}


@each_overlay
def test_the_mounts(overlay: str) -> None:
    """All mounts are read-only; of the host, only the listed paths are mounted, and no single socket."""
    for pod, container in containers(objects(overlay)):
        mounts = mounts_of(pod, container)
        assert all(mount["readOnly"] is True and "mountPropagation" not in mount for mount, _ in mounts.values())
        of_host = {volume["hostPath"]["path"]: mount for mount, volume in mounts.values() if "hostPath" in volume}
        assert set(of_host) == HOST_PATHS | ({FEATURE_FILES} if overlay in OF_NFD else set())
        # a file contains no mounts
        recursive = {path for path, mount in of_host.items() if mount.get("recursiveReadOnly") == "IfPossible"}
        assert recursive == set(of_host) - {"/etc/os-release"}


@pytest.mark.parametrize("overlay", OF_NFD)
def test_feature_files_are_where_the_agent_reads_them(overlay: str) -> None:
    for pod, container in containers(objects(overlay)):
        directory = os.path.join(parsed(container["args"]).root, FEATURES_DIRECTORY)
        assert mounts_of(pod, container)[directory][1]["hostPath"]["path"] == FEATURE_FILES


def test_every_mount_is_read() -> None:
    """Discovery reads each mount; all other paths that it reads are in /proc, or alternatives to a mounted path."""
    files = RecordingFiles(MemoryFiles([("proc/sys/kernel/osrelease", b"6.1.0\n"), ("sys", None)]), {})
    Scanner(files).scan()
    asked = {path for _, path in files.results}
    [(pod, container)] = containers(objects("."))
    root = parsed(container["args"]).root
    places = [os.path.relpath(path, root) for path in mounts_of(pod, container) if path.startswith(f"{root}/")]
    assert [place for place in places if not any(f"{path}/".startswith(f"{place}/") for path in asked)] == []
    elsewhere = {path for path in asked if not path.startswith(("proc/", *places))}
    of_captures = {"zonewise", "zonewise/nvml.json"}
    assert {path for path in elsewhere if not path.startswith("usr/")} <= {"etc/hostname", *of_captures}


@each_overlay
def test_no_credential_of_the_kubelet_is_mounted(overlay: str) -> None:
    """Of the kubelet's directory, only sockets and the device checkpoint are mounted: no kubeconfig, key or volume."""
    settings = Settings().completed()
    needed = {settings.podresources_socket, settings.pods_api_socket, device_checkpoint_path(settings.kubelet_dir)}
    assert {os.path.dirname(path) for path in needed} == KUBELET_PATHS
    for pod, container in containers(objects(overlay)):
        mounts = mounts_of(pod, container)
        assert {path for path in mounts if path.startswith(settings.kubelet_dir)} == KUBELET_PATHS
        assert {path: mounts[path][1]["hostPath"]["path"] for path in KUBELET_PATHS} == {p: p for p in KUBELET_PATHS}


def test_secrets_beside_the_state_files_are_covered() -> None:
    """With this component, the kubelet's directory is mounted, but not its volumes of pods, drivers and keys."""
    manifests = combined("overlays/gpu", "components/kubelet-state")
    assert len(containers(manifests)) == 2
    for pod, container in containers(manifests):
        mounts = mounts_of(pod, container)
        empty = {path for path, (_, volume) in mounts.items() if "emptyDir" in volume}
        directory = Settings().kubelet_dir
        assert mounts[directory][1]["hostPath"]["path"] == directory
        assert empty == {f"{directory}/{name}" for name in ("pods", "plugins", "plugins_registry", "pki")}
        assert {path for path in mounts if path.startswith(directory)} == {directory, *empty}
        assert all(mounts[path][0]["readOnly"] for path in (directory, *empty))
        settings, covered = Settings().completed(), tuple(f"{path}/" for path in empty)
        used = (
            settings.podresources_socket, settings.pods_api_socket, settings.kubelet_config,
            device_checkpoint_path(directory),
        )  # fmt: skip
        assert not [path for path in used if not path.startswith(f"{directory}/") or path.startswith(covered)]


@pytest.mark.parametrize("name", ["kubeconfig", "bootstrap-kubeconfig", "config.json"])
def test_files_with_credentials_are_covered(name: str) -> None:
    """If nodes have such a file, a component mounts an empty file over it, in every DaemonSet."""
    manifests = combined("overlays/gpu", "components/kubelet-state", f"components/cover-{name.replace('.', '-')}")
    assert len(containers(manifests)) == 2
    for pod, container in containers(manifests):
        mount, volume = mounts_of(pod, container)[f"{Settings().kubelet_dir}/{name}"]
        assert (mount["readOnly"], volume["hostPath"]) == (True, {"path": "/dev/null", "type": "CharDevice"})


def test_k3s_omits_the_mount_over_keys() -> None:
    """The component for k3s and RKE2 omits only the mount over pki, a directory that they do not have."""
    [(pod, container)] = containers(combined("overlays/default", "components/kubelet-state", "components/k3s"))
    [(ordinary, same)] = containers(combined("overlays/default", "components/kubelet-state"))
    left_out = set(mounts_of(ordinary, same)) - set(mounts_of(pod, container))
    assert left_out == {"/var/lib/kubelet/pki"}


@each_overlay
def test_the_agent_accepts_its_arguments_and_settings(overlay: str) -> None:
    """The agent knows every argument, variable and settings file, and together they are valid."""
    manifests = objects(overlay)
    settings = {one["metadata"]["name"]: one["data"] for one in of_kind(manifests, "ConfigMap")}
    for pod, container in containers(manifests):
        flags = OPTIONS.flag_values(parsed(container["args"]))
        variables = {one["name"]: one.get("value", "a") for one in container["env"]}
        known = {name for option in OPTIONS for name in option.variables}
        assert {name for name in variables if not name.startswith("NVIDIA_")} <= known
        mounts = mounts_of(pod, container)
        _, volume = mounts[os.path.dirname(DEFAULT_FILE)]
        content = settings[volume["configMap"]["name"]][os.path.basename(DEFAULT_FILE)]
        result = read_settings(flags, variables, content)
        assert container["ports"] == [{"name": "metrics", "containerPort": port_of(result), "protocol": "TCP"}]
        assert result.root == "/host"
        files = [path for path in (result.tls_cert, result.tls_key) if path]
        assert [path for path in files if os.path.dirname(path) not in mounts] == []


def port_of(settings: Settings) -> int:
    return int(settings.listen.rpartition(":")[2])


@each_overlay
def test_the_probes(overlay: str) -> None:
    """Probes use endpoints without a token, over TLS exactly if the agent serves TLS."""
    for _, container in containers(objects(overlay)):
        scheme = "HTTPS" if parsed(container["args"]).tls_cert else "HTTP"
        check_probes(container, scheme)


@each_overlay
def test_the_pod_runs_on_every_node(overlay: str) -> None:
    """The pod tolerates all taints on Linux nodes, stops soon, and is rolled out to a tenth of the nodes at a time."""
    manifests = objects(overlay)
    for one in of_kind(manifests, "DaemonSet"):
        assert one["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%"}
    for pod, _ in containers(manifests):
        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
        assert pod["priorityClassName"] == "system-node-critical"
        assert pod["terminationGracePeriodSeconds"] == 5
        assert pod["dnsPolicy"] == "ClusterFirst"


def test_the_token_has_the_usual_files() -> None:
    """The projected token has the three files where in-cluster configuration expects them."""
    [(pod, container)] = containers(objects("."))
    _, volume = mounts_of(pod, container)["/var/run/secrets/kubernetes.io/serviceaccount"]
    account, ca, namespace = volume["projected"]["sources"]
    assert account["serviceAccountToken"]["path"] == "token"
    assert ca["configMap"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    assert [item["path"] for item in namespace["downwardAPI"]["items"]] == ["namespace"]


# --- GPUs


def runs_on(pod: Object, labels: dict[str, str]) -> bool:
    """Return whether a DaemonSet schedules its pod to a node with these labels."""

    def fits(expression: Object) -> bool:
        holds = labels.get(expression["key"]) in expression["values"]
        return {"In": holds, "NotIn": not holds}[expression["operator"]]

    affinity = pod.get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")
    return terms is None or any(all(map(fits, term["matchExpressions"])) for term in terms)


def runtime_classes(labels: dict[str, str]) -> list[str | None]:
    """Return the runtime class of each DaemonSet that schedules its pod to a node with these labels."""
    wanting = [pod for pod, _ in containers(objects("overlays/gpu")) if runs_on(pod, labels)]
    return [pod.get("runtimeClassName") for pod in wanting]


@pytest.mark.parametrize("name", ALL)
def test_each_node_has_one_agent(name: str) -> None:
    """Exactly one of the two DaemonSets selects each node: the one with NVML if the node has an NVIDIA GPU."""
    machine = ALL[name]()
    has_gpu = any(gpu.vendor == "nvidia" for gpu in machine.gpus)
    assert runtime_classes(machine_to_labels(machine)) == ["nvidia" if has_gpu else None]


def test_a_new_node_starts_with_the_agent_of_all_nodes() -> None:
    """No agent has labelled the node yet, so the first one must find the GPU."""
    assert runtime_classes({}) == [None]


def test_the_agent_with_nvml_needs_no_label_of_nfd() -> None:
    """The configuration of an NFD worker changes the PCI labels, but not the selected agent."""
    worker, problems = parse_worker_config(GPU_OPERATORS_WORKER)
    labels = machine_to_labels(ALL["gpu_server"](), config=LabelConfig(worker=worker))
    assert problems == ()
    assert "feature.node.kubernetes.io/pci-0302_10de.present" not in labels
    assert runtime_classes(labels) == ["nvidia"]


def test_devices_and_libraries_of_the_runtime() -> None:
    """The container needs all GPUs, and only NVML of the driver's libraries."""
    [container] = [one for pod, one in containers(objects("overlays/gpu")) if "runtimeClassName" in pod]
    asked = {one["name"]: one["value"] for one in container["env"] if one["name"].startswith("NVIDIA_")}
    assert asked == {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}


@each_overlay
def test_selectors(overlay: str) -> None:
    """No DaemonSet selects another's pods; the Service, the NetworkPolicy and the PodMonitor select the pods of all."""
    manifests = objects(overlay)
    sets = of_kind(manifests, "DaemonSet")
    for one in sets:
        chosen = [other for other in sets if selects(one["spec"]["selector"]["matchLabels"], other)]
        assert chosen == [one]
        assert one["metadata"]["namespace"] == NAMESPACE
    for kind, place in (("Service", "selector"), ("NetworkPolicy", "podSelector"), ("PodMonitor", "selector")):
        for one in of_kind(manifests, kind):
            selector = one["spec"][place]
            assert all(selects(selector.get("matchLabels", selector), other) for other in sets)


def selects(labels: dict[str, str], daemon_set: Object) -> bool:
    return labels.items() <= daemon_set["spec"]["template"]["metadata"]["labels"].items()
