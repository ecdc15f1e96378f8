"""The settings of `zonewise agent`. Only the file can contain the structured setting `exclude`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.daemon.exclusions import Exclusions, parse_exclusions
from zonewise.gfd.types import MIG_STRATEGIES
from zonewise.nfd.custom_rule_files import CUSTOM_DIRECTORY
from zonewise.nfd.feature_files import FEATURES_DIRECTORY
from zonewise.nfd.worker_config_file import WORKER_CONFIG_FILE
from zonewise.objects.feature_groups import FEATURE_GROUPS, parse_feature_groups
from zonewise_common.service.options import (
    FileOption,
    Option,
    Options,
    SettingsError,
    boolean,
    choice,
    duration,
    listen_address,
    settings_digest,
    text,
    whole_number,
)
from zonewise_common.service.shared_options import API_SERVER, LOGS, METRICS_AUTH, check_tls, tls_options

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_FILE = "/etc/zonewise/agent.yaml"


class Settings(NamedTuple):
    """The agent's settings. Durations are seconds; empty strings mean "none"."""

    node_name: str = ""
    node_ip: str = ""
    pod_name: str = ""
    namespace: str = ""
    root: str = "/"
    kubelet_dir: str = "/var/lib/kubelet"
    podresources_socket: str = ""
    pods_api_socket: str = ""
    kubelet_config: str = ""
    kubelet_config_drop_ins: str = ""
    kubelet_ca: str = ""
    kubeconfig: str = ""
    api_server: str = ""
    instance: str = ""
    interval: float = 60.0
    readiness_limit: float = 180.0
    notify_file: str = ""
    publish_nrt: bool = True
    publish_labels: str = "auto"
    publish_take_over: bool = False
    publish_features: tuple[str, ...] = ()
    nfd_features_dir: str = ""
    nfd_worker_config: str = ""
    nfd_custom_dir: str = ""
    gfd_config_file: str = ""
    gfd_config_name: str = ""
    gfd_mig_strategy: str = ""
    gfd_machine_type_file: str = ""
    rules_enabled: bool = False
    rules_taints: bool = False
    rules_annotations: bool = True
    rules_extended_resources: bool = True
    rules_extra_label_ns: tuple[str, ...] = ()
    rules_deny_label_ns: tuple[str, ...] = ()
    rules_label_white_list: str = ""
    fingerprint: str = "with-exclusive-resources"
    listen: str = ":9809"
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    metrics_auth: str = "none"
    log_level: str = "info"
    log_format: str = "text"
    health_mode: str = "off"
    health_state_file: str = ""
    health_baseline_file: str = ""
    health_kernel_log: str = "/dev/kmsg"
    health_nvml_interval: float = 60.0
    health_nvml_events: bool = True
    health_suspect_after: int = 2
    health_withhold: bool = False
    health_taint: bool = False
    exclude: Exclusions = Exclusions()

    def completed(self) -> Settings:
        """Return the settings with derived values filled in."""
        sockets = {
            "podresources_socket": self.podresources_socket or f"{self.kubelet_dir}/pod-resources/kubelet.sock",
            "pods_api_socket": self.pods_api_socket or f"{self.kubelet_dir}/pods-api/pods-api.sock",
        }
        directories = {
            "nfd_features_dir": self.nfd_features_dir or os.path.join(self.root, FEATURES_DIRECTORY),
            "nfd_custom_dir": self.nfd_custom_dir or os.path.join(self.root, CUSTOM_DIRECTORY),
        }
        config = self.kubelet_config or self._configz() or f"{self.kubelet_dir}/config.yaml"
        name = self.node_name or os.uname().nodename.lower()
        return self._replace(**sockets, **directories, kubelet_config=config, node_name=name)

    def rules_record(self) -> str:
        """Return the name under which the agent records what it has set by rules."""
        return self.instance or self.namespace or "node"

    def digest(self) -> str:
        """Return a hash of the settings except those that name the node and the pod."""
        config = "" if self.kubelet_config == self._configz() else self.kubelet_config
        common = self._replace(node_name="", node_ip="", pod_name="", kubelet_config=config)
        return settings_digest(common)

    def kubelet_config_fallback(self) -> str:
        """Return the file with the kubelet's configuration to use until /configz has responded once; empty if there is
        none.

        There is a fallback only if the URL was derived from the node's address: a configured location has none.
        """
        return f"{self.kubelet_dir}/config.yaml" if self.kubelet_config == self._configz() else ""

    def _configz(self) -> str:
        """Return the URL of the kubelet's configuration; empty if the node's address is unknown."""
        return f"https://{_bracketed(self.node_ip)}:10250/configz" if self.node_ip else ""


def _node_name(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", value):
        raise ValueError("must be the name of a Node: lower-case letters, digits, dots and dashes")
    return value


def _instance(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"([a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?)?", value):
        raise ValueError("must consist of at most 53 lower-case letters, digits and dashes")
    return value


def _namespaces(value: object) -> tuple[str, ...]:
    from zonewise.rules.label_policy import namespaces

    return namespaces(value)


def _expression(value: object) -> str:
    from zonewise.rules.label_policy import expression

    return expression(value)


OPTIONS = Options((
    Option("nodeName", _node_name, "name of this node (default: the host's name)", "NAME", ("NODE_NAME",)),
    Option("nodeIp", text, "address of this node, at which the kubelet serves /configz", "ADDRESS", ("NODE_IP",)),
    Option("podName", text, "name of the agent's pod, which owns the NodeFeature", "NAME", ("POD_NAME",)),
    Option("namespace", text, "namespace of the NodeFeature object; without it, the agent "
           "writes no NodeFeature", "NAME", ("POD_NAMESPACE",)),
    Option("root", text, "directory under which the host's /sys, /proc and /etc are mounted (default: /)", "PATH"),
    Option("kubeletDir", text, "data directory of the kubelet (default: /var/lib/kubelet)", "PATH"),
    Option("podresourcesSocket", text, "socket of the kubelet's PodResources API (default: "
           "KUBELET-DIR/pod-resources/kubelet.sock)",
           "PATH"),
    Option("podsApiSocket", text, "socket of the kubelet's Pods API (default: "
           "KUBELET-DIR/pods-api/pods-api.sock)", "PATH"),
    Option("kubeletConfig", text, "configuration of the kubelet: a file, or an https URL (default: /configz at NODE-IP "
           "if that is known and responds, else KUBELET-DIR/config.yaml)", "LOCATION"),
    Option("kubeletConfigDropIns", text, "directory of the kubelet's drop-in configuration "
           "files, if it has one", "PATH"),
    Option("kubeletCa", text, "CA certificates that sign the kubelet's certificate (default: "
           "the cluster's CA)", "FILE"),
    *API_SERVER,
    Option("instance", _instance, "name of this agent if several run on one node; it keeps their outputs apart "
           "(default: none)", "NAME"),
    Option("interval", duration, "longest time between two scans (default: 60s)", "DURATION"),
    Option("readinessLimit", duration, "age of the last successful publish at which the agent stops being ready "
           "(default: 180s)",
           "DURATION"),
    Option("notifyFile", text, "file that starts a scan when it is written or touched; the agent creates it if it is "
           "missing", "FILE"),
    Option("publish.nrt", boolean, "publish the NodeResourceTopology (default: true)", "true|false"),
    Option("publish.labels", choice("auto", "nodefeature", "node", "off"), "how to publish labels: through NFD's "
           "master (nodefeature), directly on the Node (node), not at all (off), or through NFD's master if its API is "
           "served, else directly (auto) (default: auto)", "auto|nodefeature|node|off"),
    Option("publish.takeOver", boolean, "take over labels that NFD, GFD or AMD's labeller left on the Node (default: "
           "false)", "true|false"),
    Option("publish.features", parse_feature_groups, "groups of raw features to add to the NodeFeature: all, none, or "
           f"some of {','.join(FEATURE_GROUPS)} (default: none)", "GROUP,..."),
    Option("nfd.featuresDir", text, "directory of feature files, which add features and labels (default: "
           f"ROOT/{FEATURES_DIRECTORY})", "PATH"),
    Option("nfd.workerConfig", text, "configuration of NFD's worker, which controls the labels (default: "
           f"ROOT/{WORKER_CONFIG_FILE}, if it exists)", "FILE"),
    Option("nfd.customDir", text, f"directory of the worker's custom rules (default: ROOT/{CUSTOM_DIRECTORY})", "PATH"),
    Option("gfd.configFile", text, "configuration of NVIDIA's device plugin, as GPU Feature Discovery reads it: a "
           "file, or the directory of a ConfigMap (default: none, without sharing)", "PATH",
           ("GFD_CONFIG_FILE", "CONFIG_FILE")),
    Option("gfd.configName", text, "configuration to use from that directory if the Node has no label "
           "nvidia.com/device-plugin.config (default: default, or the only one)", "NAME"),
    Option("gfd.migStrategy", choice(*MIG_STRATEGIES), "how MIG devices are labelled (default: as in the "
           "configuration; without one, by profile)", "|".join(MIG_STRATEGIES), ("GFD_MIG_STRATEGY", "MIG_STRATEGY")),
    Option("gfd.machineTypeFile", text, "file with the machine type for nvidia.com/gpu.machine (default: the file in "
           "the configuration, else the firmware's product name)", "FILE", ("GFD_MACHINE_TYPE_FILE",)),
    Option("rules.enabled", boolean, "evaluate the cluster's NodeFeatureRules on this node, and set their labels, "
           "annotations and extended resources (default: false)", "true|false"),
    Option("rules.taints", boolean, "also set the taints of NodeFeatureRules (default: false)", "true|false"),
    Option("rules.annotations", boolean, "set the annotations of NodeFeatureRules (default: true)", "true|false"),
    Option("rules.extendedResources", boolean, "set the extended resources of NodeFeatureRules "
           "(default: true)", "true|false"),
    Option("rules.extraLabelNs", _namespaces, "label namespaces that rules may use even if they are reserved or "
           "denied, as in NFD's master (default: \"\")", "NAMESPACE,..."),
    Option("rules.denyLabelNs", _namespaces, "label namespaces that rules may not use; *SUFFIX denies all that end "
           'with it (default: "")', "NAMESPACE,..."),
    Option("rules.labelWhiteList", _expression, "regular expression that the names of rules' labels must match, "
           'without their namespace (default: "")', "REGEXP"),
    Option("fingerprint", choice("with-exclusive-resources", "all"), "pods that the standard fingerprint covers: all, "
           "or only those with exclusive resources (default: with-exclusive-resources)",
           "with-exclusive-resources|all"),
    Option("listen", listen_address, 'address at which to serve metrics and health (default: ":9809"; '
           '"" for no server)',
           "ADDRESS:PORT"),
    Option("health.mode", choice("off", "observe", "publish"), "hardware checks: none (off), faults in metrics and the "
           "report (observe), or also conditions and Events on the Node and on pods (publish) (default: off)",
           "off|observe|publish"),
    Option("health.stateFile", text, "file in which faults, counters and the learned baseline survive a restart "
           "(default: none)", "FILE"),
    Option("health.baselineFile", text, "description of the node in good health, as `zonewise health --write-baseline` "
           "writes it (default: learned)", "FILE"),
    Option("health.kernelLog", text, "kernel log to read, or none (default: /dev/kmsg)", "FILE|none"),
    Option("health.nvmlInterval", duration, "longest time between two queries of NVML, if the NVIDIA driver drives a "
           "GPU (default: 60s)", "DURATION"),
    Option("health.nvmlEvents", boolean, "read XIDs from NVML, in a separate process, if the kernel log cannot be read "
           "(default: true)", "true|false"),
    Option("health.suspectAfter", whole_number(0, 100), "suspect a GPU after XID 13 or 31 under this many different "
           "workloads within a day; 0 for never (default: 2)", "COUNT"),
    Option("health.withhold", boolean, "remove failed devices from the allocatable and available amounts in the report "
           "(default: false)", "true|false"),
    Option("health.taint", boolean, "taint the Node with zonewise.dev/hardware-fault:NoSchedule while a device is "
           "failed (default: false)", "true|false"),
    *tls_options("serve metrics and health", "accept clients"),
    METRICS_AUTH,
    *LOGS,
), (FileOption("exclude", parse_exclusions, "resources and pods that the report omits"),))  # fmt: skip


def read_settings(
    flags: Mapping[str, str | None], environment: Mapping[str, str], content: str | None, path: str = DEFAULT_FILE
) -> Settings:
    """Merge flags, environment and file into the settings.

    `flags` are by field, None if not set; `content` is the text of the file `path`, None if there is no file. Raises
    SettingsError.
    """
    settings = Settings(**OPTIONS.read(flags, environment, content, path))
    check_tls(settings)
    if settings.interval >= settings.readiness_limit:
        raise SettingsError(
            f"interval: {settings.interval:g} s must be less than readinessLimit ({settings.readiness_limit:g} s): the "
            "agent verifies its objects once per interval, and they would count as too old in between"
        )
    return settings.completed()


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
