"""The settings of `zonewise agent`, from four places; the first that has one wins: flags, environment, file, defaults.

Every setting has one name, from which the others follow: `publish.labels` in the file is `--publish-labels` on the
command line and `ZONEWISE_PUBLISH_LABELS` in the environment. What is nested (`exclude`) is in the file only.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from zonewise.daemon.exclusions import Exclusions, parse_exclusions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

DEFAULT_FILE = "/etc/zonewise/agent.yaml"
PREFIX = "ZONEWISE_"

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class SettingsError(Exception):
    """A setting that cannot be used: says where it is from, its name, its value, and what it may be."""


class Settings(NamedTuple):
    """What the agent was told. Durations are seconds; empty strings mean "none"."""

    node_name: str = ""
    node_ip: str = ""
    pod_name: str = ""
    pod_uid: str = ""
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
    interval: float = 60.0
    readiness_limit: float = 180.0
    notify_file: str = ""
    publish_nrt: bool = True
    publish_labels: str = "auto"
    fingerprint: str = "with-exclusive-resources"
    listen: str = ":9809"
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    metrics_auth: str = "none"
    log_level: str = "info"
    log_format: str = "text"
    exclude: Exclusions = Exclusions()

    def completed(self) -> Settings:
        """Return the settings with what follows from others filled in."""
        sockets = {
            "podresources_socket": self.podresources_socket or f"{self.kubelet_dir}/pod-resources/kubelet.sock",
            "pods_api_socket": self.pods_api_socket or f"{self.kubelet_dir}/pods-api/pods-api.sock",
        }
        config = self.kubelet_config or self._configz() or f"{self.kubelet_dir}/config.yaml"
        return self._replace(**sockets, kubelet_config=config, node_name=self.node_name or os.uname().nodename.lower())

    def kubelet_config_instead(self) -> str:
        """Return the file that tells the kubelet's configuration as long as /configz never did; empty for none.

        Only where that URL was our own idea: a place that was given is the only one.
        """
        return f"{self.kubelet_dir}/config.yaml" if self.kubelet_config == self._configz() else ""

    def _configz(self) -> str:
        """Return where the kubelet serves its configuration; empty where the node's address is not known."""
        return f"https://{_bracketed(self.node_ip)}:10250/configz" if self.node_ip else ""


class Option(NamedTuple):
    """One setting by its names."""

    key: str
    """In the file: camelCase, with a dot between levels."""
    parse: Callable[[object], Any]
    """Raises ValueError, saying what the value may be."""
    help: str
    metavar: str = "TEXT"
    environment: tuple[str, ...] = ()
    """Further names in the environment, which the Downward API of a manifest customarily sets."""

    @property
    def field(self) -> str:
        """Return the name in Settings."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.key).lower().replace(".", "_")

    @property
    def flag(self) -> str:
        """Return the name on the command line."""
        return "--" + self.field.replace("_", "-")

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names in the environment, the first that is set counts."""
        return (PREFIX + self.field.upper(), *self.environment)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def _flag(value: object) -> bool:
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in known:
        raise ValueError("must be true or false")
    return known[value.lower()]


def parse_duration(value: object) -> float:
    """Return seconds of 30, "30", "30s", "500ms", "5m" or "1h"; raise ValueError for others, and below 0.1 s."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|)", str(value)) if not isinstance(value, bool) else None
    if found is None:
        raise ValueError('must be a duration, such as "30s", "5m" or "500ms"')
    seconds = float(found[1]) * _UNITS[found[2] or "s"]
    if seconds < 0.1:
        raise ValueError("must be at least 100ms")
    return seconds


def _one_of(*names: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value is False and "off" in names:
            return "off"  # YAML 1.1 reads off as false
        if value not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return str(value)

    return parse


def _address(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"|(\[[0-9a-fA-F:]+\]|[^:\s]*):[0-9]{1,5}", value):
        raise ValueError('must be ADDRESS:PORT, :PORT, or "" for no server')
    if value and int(value.rpartition(":")[2]) > 65535:
        raise ValueError("must have a port up to 65535")
    return value


def _node_name(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", value):
        raise ValueError("must be the name of a Node: small letters, digits, dots and dashes")
    return value


OPTIONS = (
    Option("nodeName", _node_name, "the node that this is (default: the host's name)", "NAME", ("NODE_NAME",)),
    Option("nodeIp", _text, "its address, where the kubelet serves /configz", "ADDRESS", ("NODE_IP",)),
    Option("podName", _text, "the pod that this is, the owner of its NodeFeature", "NAME", ("POD_NAME",)),
    Option("podUid", _text, "its UID", "UID", ("POD_UID",)),
    Option("namespace", _text, "where the NodeFeature object goes, none without one", "NAME", ("POD_NAMESPACE",)),
    Option("root", _text, "below which the host's sys, proc and etc are seen (default: /)", "PATH"),
    Option("kubeletDir", _text, "the kubelet's directory (default: /var/lib/kubelet)", "PATH"),
    Option("podresourcesSocket", _text, "its PodResources socket (default: KUBELET-DIR/pod-resources/kubelet.sock)",
           "PATH"),
    Option("podsApiSocket", _text, "its PodsAPI socket (default: KUBELET-DIR/pods-api/pods-api.sock)", "PATH"),
    Option("kubeletConfig", _text, "its configuration: a file, or an https URL (default: /configz of NODE-IP where "
           "that is known and answers, else KUBELET-DIR/config.yaml)", "PLACE"),
    Option("kubeletConfigDropIns", _text, "the directory of its drop-in files, where it has one", "PATH"),
    Option("kubeletCa", _text, "the CA certificates that sign the kubelet's (default: the cluster's)", "FILE"),
    Option("kubeconfig", _text, "reach the API server by this file (default: as a pod does)", "FILE"),
    Option("apiServer", _text, "reach the API server at this URL without credentials, as `kubectl proxy` offers it",
           "URL"),
    Option("interval", parse_duration, "scan at least this often (default: 60s)", "DURATION"),
    Option("readinessLimit", parse_duration, "not ready when the last good publish is older (default: 180s)",
           "DURATION"),
    Option("notifyFile", _text, "scan when this file is written or touched; made where it is absent", "FILE"),
    Option("publish.nrt", _flag, "publish the NodeResourceTopology (default: true)", "true|false"),
    Option("publish.labels", _one_of("auto", "nodefeature", "node", "off"), "labels: through NFD's master, directly on "
           "the Node, or the first where it is served (default: auto)", "auto|nodefeature|node|off"),
    Option("fingerprint", _one_of("with-exclusive-resources", "all"), "the pods that the standard fingerprint covers "
           "(default: with-exclusive-resources)", "with-exclusive-resources|all"),
    Option("listen", _address, 'serve metrics and health there (default: ":9809"; "" for no server)', "ADDRESS:PORT"),
    Option("tls.cert", _text, "serve over TLS with this certificate, re-read when it changes", "FILE"),
    Option("tls.key", _text, "and this key", "FILE"),
    Option("tls.clientCa", _text, "take clients only with a certificate of these", "FILE"),
    Option("metricsAuth", _one_of("none", "token"), "ask the API server whether the bearer of a token may get /metrics "
           "(default: none)", "none|token"),
    Option("logLevel", _one_of("debug", "info", "warning", "error"), "default: info", "debug|info|warning|error"),
    Option("logFormat", _one_of("text", "json"), "default: text", "text|json"),
)  # fmt: skip

_BY_KEY = {option.key: option for option in OPTIONS}
_GROUPS = {option.key.partition(".")[0] for option in OPTIONS if "." in option.key}


def read_settings(
    flags: Mapping[str, str | None], environment: Mapping[str, str], content: str | None, place: str = DEFAULT_FILE
) -> Settings:
    """Return the settings of all places together.

    `flags` are by field, None where not given; `content` is the text of the file `place`, None where there is none.
    Raises SettingsError.
    """
    found = dict(_of_file(content, place)) if content is not None else {}
    for option in OPTIONS:
        name = next((name for name in option.variables if environment.get(name)), None)
        if name is not None:
            found[option.field] = _parsed(option, environment[name], f"environment: {name}")
        given = flags.get(option.field)
        if given is not None:
            found[option.field] = _parsed(option, given, option.flag)
    made = Settings(**found)
    if bool(made.tls_cert) != bool(made.tls_key):
        raise SettingsError("tls.cert and tls.key go together: one of them is missing")
    if made.interval >= made.readiness_limit:
        raise SettingsError(
            f"interval: {made.interval:g} s must be less than readinessLimit ({made.readiness_limit:g} s): what is "
            "published is looked at once in an interval, and would count as too old in between"
        )
    return made.completed()


def _of_file(content: str, place: str) -> Iterable[tuple[str, Any]]:
    import yaml

    try:
        document: object = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise SettingsError(f"{place}: no YAML: {' '.join(str(error).split())}") from error
    if document is None:
        return
    if not isinstance(document, dict):
        raise SettingsError(f"{place}: must be settings by name, not {type(document).__name__}")
    for key, value in _flat(cast("Mapping[Any, Any]", document)):
        if key == "exclude":
            try:
                yield "exclude", parse_exclusions(value)
            except ValueError as error:
                raise SettingsError(f"{place}: {error}") from error
        elif key in _BY_KEY:
            yield _BY_KEY[key].field, _parsed(_BY_KEY[key], value, f"{place}: {key}")
        else:
            raise SettingsError(f"{place}: {key}: unknown key; {_nearest(key)}")


def _flat(document: Mapping[Any, Any]) -> Iterable[tuple[str, Any]]:
    for key, value in document.items():
        if key in _GROUPS and isinstance(value, dict):
            yield from ((f"{key}.{name}", inner) for name, inner in cast("Mapping[Any, Any]", value).items())
        else:
            yield str(key), value


def _nearest(key: str) -> str:
    import difflib

    known = [*_BY_KEY, "exclude"]
    near = difflib.get_close_matches(key, known, 1)
    return f"did you mean {near[0]}?" if near else f"there is {', '.join(known)}"


def _parsed(option: Option, value: object, place: str) -> object:
    try:
        return option.parse(value)
    except ValueError as error:
        raise SettingsError(f"{place}: {value!r} {error}") from error


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
