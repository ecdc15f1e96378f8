"""The server's address and the client's credentials: in a cluster, and from kubeconfig files of every kind in use."""

from __future__ import annotations

import base64
import json
import pathlib
import stat
import sys
from typing import TYPE_CHECKING, Any

import pytest
import trustme
import yaml
from kubernetes.config import kube_config

from zonewise_common.kube.config import Certificate, Config
from zonewise_common.kube.credentials import FileToken
from zonewise_common.kube.errors import ConfigError
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from pathlib import Path

ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def account(root: Path, **files: str) -> str:
    for name, content in {"token": "t", "namespace": "zonewise\n", "ca.crt": "pem", **files}.items():
        if content:
            (root / name).write_text(content)
    return str(root)


def test_in_cluster(tmp_path: Path) -> None:
    """A service account's files and the environment suffice."""
    config = Config.in_cluster(account(tmp_path), ENVIRON)
    assert (config.url, config.ca, config.namespace) == ("https://10.96.0.1:443", f"{tmp_path}/ca.crt", "zonewise")
    assert config.credentials is not None
    assert config.credentials.header() == "Bearer t"


def test_in_cluster_over_ipv6(tmp_path: Path) -> None:
    """An IPv6 address is enclosed in brackets."""
    config = Config.in_cluster(account(tmp_path), {**ENVIRON, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert config.url == "https://[fd00::1]:443"


def test_not_in_a_cluster(tmp_path: Path) -> None:
    """The error names the missing variable or file."""
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
        Config.in_cluster(account(tmp_path), {})
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(ConfigError, match=r"ca\.crt: no such file"):
        Config.in_cluster(str(tmp_path), ENVIRON)


# --- the token of a service account


def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    """The file is read again after a minute, and at once after the server has rejected the token."""
    file = tmp_path / "token"
    file.write_text("one\n")
    now = [0.0]
    token = FileToken(file, clock=lambda: now[0])
    assert token.header() == "Bearer one"
    file.write_text("two\n")
    now[0] = 59.0
    assert token.header() == "Bearer one"
    now[0] = 60.0
    assert token.header() == "Bearer two"
    file.write_text("three\n")
    assert token.header() == "Bearer two"
    assert token.header(fresh=True) == "Bearer three"


@pytest.mark.parametrize("damage", [None, b"", b"\xff\xfe", b"two\nlines", b"nul\x00"])
def test_a_token_file_that_is_damaged(tmp_path: Path, damage: bytes | None) -> None:
    """A damaged file is an error at the start; later, the last valid token remains in use."""
    file = tmp_path / "token"
    file.write_bytes(b"good")
    token = FileToken(file)
    assert token.header() == "Bearer good"
    file.unlink()
    if damage is not None:
        file.write_bytes(damage)
    assert token.header(fresh=True) == "Bearer good"
    with pytest.raises(ConfigError, match=str(file)):
        FileToken(file).header()


# --- kubeconfig, through the official client


def kubeconfig(place: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "mine"}},
            {"name": "there", "context": {"cluster": "d", "user": "u"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://here:6443", **(cluster or {})}},
            {"name": "d", "cluster": {"server": "http://there:8080"}},
        ],
        "users": [{"name": "u", "user": user}],
    }
    file = place / "config"
    file.write_text(yaml.safe_dump(content))
    return str(file)


def coded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_kubeconfig_with_a_token(tmp_path: Path) -> None:
    """The server, namespace, authority and token are those of the current context."""
    pem = trustme.CA().cert_pem.bytes()
    path = kubeconfig(tmp_path, {"token": "t"}, {"certificate-authority-data": coded(pem), "tls-server-name": "api"})
    config = Config.from_kubeconfig(path)
    assert (config.url, config.namespace, config.server_name) == ("https://here:6443", "mine", "api")
    assert config.credentials is not None
    assert config.credentials.header() == "Bearer t"
    with open(config.ca, "rb") as file:
        assert file.read() == pem


def test_a_kubeconfig_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of many clusters takes a tenth of a second. Its relative paths begin in its directory."""
    (tmp_path / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    path = kubeconfig(tmp_path, {"token": "t"}, {"certificate-authority": "ca.crt"})
    paths: list[str] = []

    class CountingMerger(kube_config.KubeConfigMerger):
        def __init__(self, path: str) -> None:
            paths.append(path)
            super().__init__(path)

    monkeypatch.setattr(kube_config, "KubeConfigMerger", CountingMerger)
    config = Config.from_kubeconfig(path)
    assert (config.ca, config.namespace, config.user) == (str(tmp_path / "ca.crt"), "mine", "u")
    assert paths == [path]


@pytest.mark.parametrize("token", ["one\nsecret", "sécret\u20ac"])
def test_a_token_that_no_header_can_have_is_not_quoted(tmp_path: Path, token: str) -> None:
    """http.client would quote it in its error."""
    credentials = Config.from_kubeconfig(kubeconfig(tmp_path, {"token": token})).credentials
    assert credentials is not None
    with pytest.raises(ConfigError) as damaged:
        credentials.header()
    assert str(damaged.value) == "the token contains characters that are not allowed in a header"


def test_the_line_end_of_a_token_is_removed(tmp_path: Path) -> None:
    """A YAML block scalar (token: |) ends with a newline."""
    credentials = Config.from_kubeconfig(kubeconfig(tmp_path, {"token": "t\n"})).credentials
    assert credentials is not None
    assert credentials.header() == "Bearer t"


@pytest.mark.parametrize("variable", ["KUBECONFIG", "HOME"])
def test_the_environment_at_the_time_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """The default of the official client is read once, at its first import."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for name in ("a", "b"):
        directory = tmp_path / name / ".kube"
        directory.mkdir(parents=True)
        file = pathlib.Path(kubeconfig(directory, {"token": name})).rename(directory / "config")
        monkeypatch.setenv(variable, str(file if variable == "KUBECONFIG" else tmp_path / name))
        credentials = Config.from_kubeconfig().credentials
        assert credentials is not None
        assert credentials.header() == f"Bearer {name}"


def test_kubeconfig_with_another_context(tmp_path: Path) -> None:
    """The requested context is used."""
    config = Config.from_kubeconfig(kubeconfig(tmp_path, {"token": "t"}), "there")
    assert (config.url, config.namespace) == ("http://there:8080", "default")


@pytest.mark.parametrize("current", [None, "gone"])
def test_a_named_context_needs_no_current_one(tmp_path: Path, current: str | None) -> None:
    """As in kubectl: `kubectl config unset current-context` leaves no current context."""
    path = pathlib.Path(kubeconfig(tmp_path, {"token": "t"}))
    content = yaml.safe_load(path.read_text()) | {"current-context": current}
    path.write_text(yaml.safe_dump(content))
    config = Config.from_kubeconfig(str(path), "there")
    assert (config.url, config.namespace) == ("http://there:8080", "default")


def test_kubeconfig_with_a_client_certificate(tmp_path: Path) -> None:
    """Inline certificates become files; without a token, no Authorization header is sent."""
    issued = trustme.CA().issue_cert("me.example")
    chain, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    user = {"client-certificate-data": coded(chain), "client-key-data": coded(key)}
    config = Config.from_kubeconfig(kubeconfig(tmp_path, user))
    assert config.credentials is None
    assert config.certificate is not None
    with open(config.certificate.chain, "rb") as file:
        assert file.read() == chain


def test_kubeconfig_with_a_program(tmp_path: Path) -> None:
    """A program that prints credentials runs at first use, and again after the server rejects its token."""
    status = tmp_path / "status"
    user = program_user(tmp_path, f"cat {status}")
    print_status(status, {"token": "t1"})
    credentials = Config.from_kubeconfig(kubeconfig(tmp_path, user)).credentials
    assert credentials is not None
    assert credentials.header() == "Bearer t1"
    print_status(status, {"token": "t2"})
    assert credentials.header() == "Bearer t1"
    assert credentials.header(fresh=True) == "Bearer t2"
    assert credentials.header() == "Bearer t2"


def program_user(directory: Path, script: str) -> dict[str, Any]:
    """Return a user whose credentials a script prints."""
    program = directory / "login"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    return {"exec": run}


def print_status(file: Path, status: dict[str, str]) -> None:
    """Write the credentials that a script prints."""
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    file.write_text(json.dumps(credential))


def test_a_program_that_fails_once(tmp_path: Path) -> None:
    """The last token remains in use. Without it the client would be anonymous, and a 403 renews no token."""
    status = tmp_path / "status"
    print_status(status, {"token": "t1"})
    user = program_user(tmp_path, f"cat {status}")
    credentials = Config.from_kubeconfig(kubeconfig(tmp_path, user)).credentials
    assert credentials is not None
    status.unlink()
    with pytest.raises(ConfigError, match="exec has returned neither"):
        credentials.header(fresh=True)
    assert credentials.header() == "Bearer t1"
    print_status(status, {"token": "t2"})
    assert credentials.header(fresh=True) == "Bearer t2"


def contents(*certificates: Certificate | None) -> list[str]:
    return [pathlib.Path(file).read_text() for certificate in certificates for file in certificate or ()]


def test_a_program_that_returns_certificates(tmp_path: Path) -> None:
    """The program runs again for the next certificate."""
    status = tmp_path / "status"
    user = program_user(tmp_path, f"cat {status}")
    print_status(status, {"clientCertificateData": "chain 1", "clientKeyData": "key 1"})
    config = Config.from_kubeconfig(kubeconfig(tmp_path, user))
    print_status(status, {"clientCertificateData": "chain 2", "clientKeyData": "key 2"})
    assert config.load_certificate is not None
    assert contents(config.certificate, config.load_certificate()) == ["chain 1", "key 1", "chain 2", "key 2"]


def test_a_client_certificate_that_is_replaced_in_the_kubeconfig(tmp_path: Path) -> None:
    """The file is read again, as for a token."""
    one, two = (
        {"client-certificate-data": coded(b"chain %d" % number), "client-key-data": coded(b"key %d" % number)}
        for number in (1, 2)
    )
    config = Config.from_kubeconfig(kubeconfig(tmp_path, one))
    kubeconfig(tmp_path, two)
    assert config.load_certificate is not None
    assert contents(config.certificate, config.load_certificate()) == ["chain 1", "key 1", "chain 2", "key 2"]


def test_a_kubeconfig_that_loses_its_client_certificate(tmp_path: Path) -> None:
    """Without a certificate the client would be anonymous, so that is an error."""
    user = {"client-certificate-data": coded(b"chain"), "client-key-data": coded(b"key")}
    config = Config.from_kubeconfig(kubeconfig(tmp_path, user))
    kubeconfig(tmp_path, {})
    assert config.load_certificate is not None
    with pytest.raises(ConfigError, match="the user no longer has a client certificate"):
        config.load_certificate()


def test_a_kubeconfig_that_loses_its_token(tmp_path: Path) -> None:
    """The last token remains in use, as when a program fails."""
    credentials = Config.from_kubeconfig(kubeconfig(tmp_path, {"token": "t1"})).credentials
    assert credentials is not None
    kubeconfig(tmp_path, {})
    with pytest.raises(ConfigError, match="the token is empty"):
        credentials.header(fresh=True)
    assert credentials.header() == "Bearer t1"


@pytest.mark.parametrize("name", ["exec", "auth-provider"])
def test_a_source_without_credentials_is_an_error(tmp_path: Path, name: str) -> None:
    """The official client skips a source that fails or is unsupported, which would make this client anonymous."""
    user = program_user(tmp_path, "exit 1") if name == "exec" else {"auth-provider": {"name": "azure"}}
    with pytest.raises(ConfigError, match=f"the user's {name} has returned neither a token nor a certificate"):
        Config.from_kubeconfig(kubeconfig(tmp_path, user))


def test_an_unreachable_issuer(tmp_path: Path) -> None:
    """An error of the official client's HTTP library becomes the cause of a ConfigError."""
    expired = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b"{}", b'{"exp": 1 }', b"s"))
    with reserved_port() as port:
        settings = {"id-token": expired, "idp-issuer-url": f"http://127.0.0.1:{port}", "client-id": "a"}
        user = {"auth-provider": {"name": "oidc", "config": {**settings, "client-secret": "b", "refresh-token": "r"}}}
        with pytest.raises(ConfigError, match="refused"):
            Config.from_kubeconfig(kubeconfig(tmp_path, user))


def test_a_provider_whose_program_fails_later(tmp_path: Path) -> None:
    """An expiring token is renewed before it is sent; if that fails, the error is a ConfigError."""
    credential = '{"credential": {"access_token": "t", "token_expiry": "2001-01-01T00:00:00Z"}}'
    run = program_user(tmp_path, f"mkdir {tmp_path}/once && echo '{credential}'")["exec"]
    user = {"auth-provider": {"name": "gcp", "config": {"cmd-path": run["command"]}}}
    credentials = Config.from_kubeconfig(kubeconfig(tmp_path, user)).credentials
    assert credentials is not None
    with pytest.raises(ConfigError, match="the token cannot be renewed"):
        credentials.header()


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ({"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify is not supported"),
        ({"proxy-url": "http://proxy:3128"}, "proxy-url is not supported"),
    ],
)
def test_kubeconfig_with_unsupported_settings(tmp_path: Path, cluster: dict[str, Any], words: str) -> None:
    """A setting that would otherwise be ignored raises an error."""
    with pytest.raises(ConfigError, match=words):
        Config.from_kubeconfig(kubeconfig(tmp_path, {"token": "t"}, cluster))


@pytest.mark.parametrize("content", [None, "", "just text", "clusters: [", "clusters: 7\nusers: [1]\n", "contexts: []"])
def test_kubeconfig_that_is_damaged(tmp_path: Path, content: str | None) -> None:
    """The error names the missing or damaged file."""
    file = tmp_path / "config"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=str(file)):
        Config.from_kubeconfig(str(file))


@pytest.mark.parametrize("content", ["just text", "[]", "- kind: Config\n"])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, content: str) -> None:
    """The official client raises errors such as "'str' object does not support item assignment"."""
    (tmp_path / "config").write_text(content)
    with pytest.raises(ConfigError, match="is not a kubeconfig, which has clusters, users and contexts"):
        Config.from_kubeconfig(str(tmp_path / "config"))


def test_kubeconfig_with_an_unknown_context(tmp_path: Path) -> None:
    """The error names the unknown context and the known ones."""
    with pytest.raises(ConfigError, match="there is no context nowhere; the contexts are here"):
        Config.from_kubeconfig(kubeconfig(tmp_path, {}), "nowhere")


def test_without_the_official_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent does not depend on the official client, so the error names the extra to install."""
    for name in [name for name in sys.modules if name.startswith("kubernetes.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(ConfigError, match=r"the extra \[client\]"):
        Config.from_kubeconfig(kubeconfig(tmp_path, {}))
