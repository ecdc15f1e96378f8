"""Settings: one name each, four layers, one precedence, and errors that name the remedy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.daemon.exclusions import Exclusions, PodPattern
from zonewise.daemon.settings import OPTIONS, Settings, read_settings
from zonewise_common.service.options import SettingsError, duration

LAYERS = ("default", "file", "environment", "flag")


def read(text: str | None = None, environment: dict[str, str] | None = None, **flags: str) -> Settings:
    return read_settings(flags, environment or {}, text, "agent.yaml")


@given(st.sets(st.sampled_from(LAYERS[1:])))
def test_precedence(layers: set[str]) -> None:
    """Flags override the environment, the environment overrides the file, and the file overrides the defaults."""
    settings = read(
        "interval: 2s" if "file" in layers else None,
        {"ZONEWISE_INTERVAL": "3s"} if "environment" in layers else {},
        **({"interval": "4s"} if "flag" in layers else {}),
    )
    highest = max((LAYERS.index(layer) for layer in layers), default=0)
    assert settings.interval == (60.0, 2.0, 3.0, 4.0)[highest]


def test_every_option_is_a_setting() -> None:
    """Every option is a field with its name, and every field except the nested one is an option."""
    assert {option.field for option in OPTIONS} == set(Settings._fields) - {"exclude"}


def test_names_follow_from_one() -> None:
    """The flag and the variable are other spellings of the key."""
    option = next(option for option in OPTIONS if option.key == "tls.clientCa")
    assert (option.field, option.flag, option.variables) == (
        "tls_client_ca",
        "--tls-client-ca",
        ("ZONEWISE_TLS_CLIENT_CA",),
    )


def test_downward_api_names() -> None:
    """The variables that manifests customarily set are read after the agent's own."""
    assert read(environment={"NODE_NAME": "a"}).node_name == "a"
    assert read(environment={"NODE_NAME": "a", "ZONEWISE_NODE_NAME": "b"}).node_name == "b"


def test_an_empty_variable_is_unset() -> None:
    """An empty variable, as a template without a value leaves it, counts as unset."""
    assert read(environment={"ZONEWISE_INTERVAL": ""}).interval == 60.0


def test_nodes_with_equal_settings_have_one_digest() -> None:
    """The names and addresses of the node and the pod do not affect the digest; any other setting does."""
    digests = {
        read("interval: 30s", {"NODE_NAME": name, "NODE_IP": address, "POD_NAME": f"agent-{name}"}).digest()
        for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2"))
    }
    assert len(digests) == 1
    assert read("interval: 31s", {"NODE_NAME": "a", "NODE_IP": "10.0.0.1"}).digest() not in digests
    assert read("interval: 30s\nkubeletConfig: /x", {"NODE_NAME": "a"}).digest() not in digests


def test_derived_settings() -> None:
    """Sockets are below the kubelet's directory; /configz is at the node's address if that is known."""
    settings = read("kubeletDir: /k")
    assert settings.podresources_socket == "/k/pod-resources/kubelet.sock"
    assert settings.kubelet_config == "/k/config.yaml"
    assert read("nodeIp: 10.0.0.7").kubelet_config == "https://10.0.0.7:10250/configz"
    assert read("nodeIp: fd00::7").kubelet_config == "https://[fd00::7]:10250/configz"
    assert read("kubeletConfig: /x\nnodeIp: 10.0.0.7").kubelet_config == "/x"


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("nodeIp: 10.0.0.7", "/var/lib/kubelet/config.yaml"),
        ("nodeIp: fd00::7\nkubeletDir: /k", "/k/config.yaml"),
        ("", ""),
        ("kubeletConfig: /x\nnodeIp: 10.0.0.7", ""),
        ("kubeletConfig: https://10.0.0.8:10250/configz\nnodeIp: 10.0.0.7", ""),
    ],
)
def test_a_configured_location_is_the_only_one(text: str, instead: str) -> None:
    """The file is a fallback for /configz only if the URL was derived, and only until /configz responds."""
    assert read(text).kubelet_config_fallback() == instead


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("intervall: 3s", "agent.yaml: intervall: unknown key; did you mean interval?"),
        ("publish: {labls: off}", "agent.yaml: publish.labls: unknown key; did you mean publish.labels?"),
        ("zzz: 1", "agent.yaml: zzz: unknown key; the keys are nodeName,"),
        ("interval: soon", "agent.yaml: interval: 'soon' must be a duration"),
        ("interval: 1ms", "agent.yaml: interval: '1ms' must be at least 100ms"),
        ("interval: true", "agent.yaml: interval: True must be a duration"),
        ("publish: {labels: some}", "agent.yaml: publish.labels: 'some' must be one of auto, nodefeature, node, off"),
        ("publish: {nrt: 2}", "agent.yaml: publish.nrt: 2 must be true or false"),
        ("listen: 9809", "agent.yaml: listen: 9809 must be ADDRESS:PORT"),
        ("listen: ':99999'", "agent.yaml: listen: ':99999' must have a port up to 65535"),
        ("nodeName: Node_1", "agent.yaml: nodeName: 'Node_1' must be the name of a Node"),
        ("[]", "agent.yaml: must be a mapping of settings, not list"),
        ("a: b: c", "agent.yaml: no YAML:"),
        ("interval: 3m", "interval: 180 s must be less than readinessLimit (180 s)"),
        ("tls: {cert: a}", "tls.cert and tls.key must be set together"),
        ("root: 3", "agent.yaml: root: 3 must be a string"),
        ("exclude: {pods: [{}]}", "agent.yaml: exclude.pods[0]: excludes every pod"),
        (
            "exclude: {pods: [{ns: a}]}",
            "agent.yaml: exclude.pods[0].ns: unknown key; the keys are namespace, name, labels",
        ),
        ("exclude: {pods: [{labels: {a: 1}}]}", "agent.yaml: exclude.pods[0].labels.a: 1 must be a string"),
        ("exclude: {resources: cpu}", "agent.yaml: exclude.resources: 'cpu' must be a list"),
        ("exclude: {resources: {n1: cpu}}", "agent.yaml: exclude.resources[n1]: 'cpu' must be a list"),
        ("exclude: {things: []}", "agent.yaml: exclude.things: unknown key; the keys are resources, pods"),
    ],
)
def test_errors(text: str, message: str) -> None:
    """An error names the position, the key, the value, and the valid values."""
    with pytest.raises(SettingsError) as caught:
        read(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("key", ["health.stateFile", "kubeletDir", "tls.cert", "listen"])
def test_a_nul_character_is_an_error(key: str) -> None:
    """The functions of the system raise ValueError for it, which would end an agent that reloads its settings."""
    with pytest.raises(SettingsError, match=f"^agent.yaml: {key}: .*must not contain a NUL character"):
        read(f'{key}: "a\\0b:80"')


def test_errors_of_other_layers() -> None:
    """An error about a flag or a variable names it as the user wrote it."""
    with pytest.raises(SettingsError, match=r"^--interval: 'x' must be a duration"):
        read(interval="x")
    with pytest.raises(SettingsError, match=r"^environment: ZONEWISE_INTERVAL: 'x' must be"):
        read(environment={"ZONEWISE_INTERVAL": "x"})


def test_off_is_a_word() -> None:
    """YAML 1.1 parses off as false; the setting converts it back."""
    assert read("publish: {labels: off}").publish_labels == "off"


def test_an_empty_file_is_defaults() -> None:
    """A file that contains only comments changes nothing."""
    assert read("# nothing\n") == read()


def test_exclusions() -> None:
    """Resources are excluded for all nodes or per node, and pods by patterns."""
    text = """
    exclude:
      resources: {"*": [memory], "login-*": ["example.com/*"]}
      pods:
      - namespace: kube-*
      - {name: "monitor-?", labels: {tier: infra}}
    """
    exclusions = read(text).exclude
    assert exclusions == Exclusions(
        (("*", "memory"), ("login-*", "example.com/*")),
        (PodPattern("kube-*"), PodPattern(name="monitor-?", labels=(("tier", "infra"),))),
    )
    assert exclusions.resource_patterns("login-3") == ("memory", "example.com/*")
    assert exclusions.resource_patterns("n1") == ("memory",)
    assert exclusions.needs_labels()
    assert read("exclude: {resources: [cpu]}").exclude.resources == (("*", "cpu"),)


@pytest.mark.parametrize(
    ("pod", "matches"),
    [
        (("default", "monitor-1", {"tier": "infra"}), True),
        (("default", "monitor-1", {"tier": "user"}), False),
        (("default", "monitor-1", {"other": "infra"}), False),
        (("default", "monitor-12", {"tier": "infra"}), False),
    ],
)
def test_every_field_of_a_pattern_must_match(pod: tuple[str, str, dict[str, str]], matches: bool) -> None:
    """A pod is excluded only if every field of a pattern matches it."""
    assert PodPattern(name="monitor-?", labels=(("tier", "infra"),)).matches(*pod) is matches


@given(st.floats(0.1, 1e6), st.sampled_from(["", "s", "ms", "m", "h"]))
def test_durations(number: float, unit: str) -> None:
    """A duration is a number with a unit; values below a tenth of a second are rejected."""
    text = f"{number:.3f}{unit}"
    seconds = float(f"{number:.3f}") * {"": 1, "s": 1, "ms": 0.001, "m": 60, "h": 3600}[unit]
    if seconds < 0.1:
        with pytest.raises(ValueError, match="at least 100ms"):
            duration(text)
    else:
        assert duration(text) == pytest.approx(seconds)
