"""The settings of `zonewise agent`. Nested settings (`exclude`) are in the file only."""

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
        """Return the name under which the agent records what it sets by rules."""
        return self.instance or self.namespace or "node"

    def digest(self) -> str:
        """Return a hash of the settings, except those that name the node and the pod."""
        config = "" if self.kubelet_config == self._configz() else self.kubelet_config
        common = self._replace(node_name="", node_ip="", pod_name="", kubelet_config=config)
        return settings_digest(common)

    def kubelet_config_fallback(self) -> str:
        """Return the file to read the kubelet's configuration from until /configz has answered once; empty for none.

        There is a fallback only where the URL was derived from the node's address: a configured location has none.
        """
        return f"{self.kubelet_dir}/config.yaml" if self.kubelet_config == self._configz() else ""

    def _configz(self) -> str:
        """Return the URL of the kubelet's configuration; empty where the node's address is unknown."""
        return f"https://{_bracketed(self.node_ip)}:10250/configz" if self.node_ip else ""


def _node_name(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", value):
        raise ValueError("must be the name of a Node: small letters, digits, dots and dashes")
    return value


def _instance(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"([a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?)?", value):
        raise ValueError("must be small letters, digits and dashes, at most 53")
    return value


def _namespaces(value: object) -> tuple[str, ...]:
    from zonewise.rules.label_policy import namespaces

    return namespaces(value)


def _expression(value: object) -> str:
    from zonewise.rules.label_policy import expression

    return expression(value)


OPTIONS = Options((
    Option("nodeName", _node_name, "the name of this node (default: the host's name)", "NAME", ("NODE_NAME",)),
    Option("nodeIp", text, "the node's address, where the kubelet serves /configz", "ADDRESS", ("NODE_IP",)),
    Option("podName", text, "the agent's pod, the owner of its NodeFeature", "NAME", ("POD_NAME",)),
    Option("namespace", text, "where the NodeFeature object goes, none without one", "NAME", ("POD_NAMESPACE",)),
    Option("root", text, "below which the host's sys, proc and etc are seen (default: /)", "PATH"),
    Option("kubeletDir", text, "the kubelet's directory (default: /var/lib/kubelet)", "PATH"),
    Option("podresourcesSocket", text, "its PodResources socket (default: KUBELET-DIR/pod-resources/kubelet.sock)",
           "PATH"),
    Option("podsApiSocket", text, "its PodsAPI socket (default: KUBELET-DIR/pods-api/pods-api.sock)", "PATH"),
    Option("kubeletConfig", text, "its configuration: a file, or an https URL (default: /configz of NODE-IP where "
           "that is known and responds, else KUBELET-DIR/config.yaml)", "LOCATION"),
    Option("kubeletConfigDropIns", text, "the directory of its drop-in files, where it has one", "PATH"),
    Option("kubeletCa", text, "the CA certificates that sign the kubelet's (default: the cluster's)", "FILE"),
    *API_SERVER,
    Option("instance", _instance, "of several agents on one node, the name of this one: it tells apart what each sets "
           "(default: none)", "NAME"),
    Option("interval", duration, "scan at least this often (default: 60s)", "DURATION"),
    Option("readinessLimit", duration, "not ready when the last good publish is older (default: 180s)",
           "DURATION"),
    Option("notifyFile", text, "scan when this file is written or touched; made where it is absent", "FILE"),
    Option("publish.nrt", boolean, "publish the NodeResourceTopology (default: true)", "true|false"),
    Option("publish.labels", choice("auto", "nodefeature", "node", "off"), "labels: through NFD's master, directly on "
           "the Node, or the first where it is served (default: auto)", "auto|nodefeature|node|off"),
    Option("publish.takeOver", boolean, "make labels ours that NFD, GFD or AMD's labeller has left behind on the Node "
           "(default: false)", "true|false"),
    Option("publish.features", parse_feature_groups, "groups of raw features that the NodeFeature has besides: all, "
           f"none, or some of {','.join(FEATURE_GROUPS)} (default: none)", "GROUP,..."),
    Option("nfd.featuresDir", text, "the directory of feature files, which add features and labels (default: "
           f"ROOT/{FEATURES_DIRECTORY})", "PATH"),
    Option("nfd.workerConfig", text, "the configuration of NFD's worker, which decides about labels (default: "
           f"ROOT/{WORKER_CONFIG_FILE}, where it is)", "FILE"),
    Option("nfd.customDir", text, "the directory of the worker's custom rules (default: "
           f"ROOT/{CUSTOM_DIRECTORY})", "PATH"),
    Option("gfd.configFile", text, "the configuration of NVIDIA's device plugin, as GPU Feature Discovery reads it: a "
           "file, or the directory of a ConfigMap (default: none, no sharing)", "PATH", ("GFD_CONFIG_FILE",)),
    Option("gfd.configName", text, "the configuration in that directory where the Node has no label "
           "nvidia.com/device-plugin.config (default: default, or the only one)", "NAME"),
    Option("gfd.migStrategy", choice(*MIG_STRATEGIES), "how MIG devices are labelled (default: as the configuration "
           "has it; without one by profile)", "|".join(MIG_STRATEGIES), ("GFD_MIG_STRATEGY",)),
    Option("gfd.machineTypeFile", text, "the file with the machine's type, for nvidia.com/gpu.machine (default: as the "
           "configuration has it; else the firmware's product)", "FILE", ("GFD_MACHINE_TYPE_FILE",)),
    Option("rules.enabled", boolean, "evaluate the cluster's NodeFeatureRules on this node, and set their labels, "
           "annotations and extended resources (default: false)", "true|false"),
    Option("rules.taints", boolean, "set the taints of NodeFeatureRules as well (default: false)", "true|false"),
    Option("rules.extraLabelNs", _namespaces, "namespaces of labels that rules may set although they are reserved or "
           'denied, as of NFD\'s master (default: "")', "NAMESPACE,..."),
    Option("rules.denyLabelNs", _namespaces, "namespaces of labels that rules may not set; *SUFFIX for all that end on "
           'it (default: "")', "NAMESPACE,..."),
    Option("rules.labelWhiteList", _expression, "a regular expression that names of rules' labels must match, without "
           'their namespace (default: "")', "REGEXP"),
    Option("fingerprint", choice("with-exclusive-resources", "all"), "the pods that the standard fingerprint covers "
           "(default: with-exclusive-resources)", "with-exclusive-resources|all"),
    Option("listen", listen_address, 'serve metrics and health there (default: ":9809"; "" for no server)',
           "ADDRESS:PORT"),
    Option("health.mode", choice("off", "observe", "publish"), "judge the hardware: not at all, for metrics and the "
           "report, or with conditions and events on the Node and on pods as well (default: off)",
           "off|observe|publish"),
    Option("health.stateFile", text, "where faults, counters and the learned baseline survive a restart (default: "
           "nowhere)", "FILE"),
    Option("health.baselineFile", text, "what a healthy node has, as `zonewise health --write-baseline` writes it "
           "(default: learned)", "FILE"),
    Option("health.kernelLog", text, "the kernel log, or none (default: /dev/kmsg)", "FILE|none"),
    Option("health.nvmlInterval", duration, "query NVML at least this often, where its driver drives a GPU (default: "
           "60s)", "DURATION"),
    Option("health.nvmlEvents", boolean, "have XIDs from NVML where the kernel log cannot be read, by a process of its "
           "own (default: true)", "true|false"),
    Option("health.suspectAfter", whole_number(0, 100), "suspect a GPU that had XID 13 or 31 under so many different "
           "workloads within a day; 0 for never (default: 2)", "COUNT"),
    Option("health.withhold", boolean, "take failed devices out of what is allocatable and available in the report "
           "(default: false)", "true|false"),
    Option("health.taint", boolean, "taint the Node zonewise.dev/hardware-fault:NoSchedule while a device has failed "
           "(default: false)", "true|false"),
    *tls_options("serve", "accept clients"),
    METRICS_AUTH,
    *LOGS,
), {"exclude": parse_exclusions})  # fmt: skip


def read_settings(
    flags: Mapping[str, str | None], environment: Mapping[str, str], content: str | None, path: str = DEFAULT_FILE
) -> Settings:
    """Merge flags, environment and file into the settings.

    `flags` are by field, None where not set; `content` is the text of the file `path`, None where there is none. Raises
    SettingsError.
    """
    settings = Settings(**OPTIONS.read(flags, environment, content, path))
    check_tls(settings)
    if settings.interval >= settings.readiness_limit:
        raise SettingsError(
            f"interval: {settings.interval:g} s must be less than readinessLimit ({settings.readiness_limit:g} s): "
            "published objects are verified once in an interval, and would count as too old in between"
        )
    return settings.completed()


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
