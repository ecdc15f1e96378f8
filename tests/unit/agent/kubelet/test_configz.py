"""/configz over real TLS: the server is verified, the token is read for each request, and errors name a remedy."""

from __future__ import annotations

import datetime
import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from support.kubelet_server import KubeletServer, write_ca, write_token
from zonewise.kubelet.config import KubeletConfigError
from zonewise.kubelet.config_source import open_config
from zonewise.kubelet.configz import Configz

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def kubelet(ca: trustme.CA) -> Iterator[KubeletServer]:
    with KubeletServer(ca, "127.0.0.1") as server:
        yield server


def error_of(configz: Configz) -> str:
    with pytest.raises(KubeletConfigError) as caught:
        configz.read()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_configuration_is_inside_the_response(kubelet: KubeletServer, ca: trustme.CA, tmp_path: Path) -> None:
    configz = Configz(kubelet.url, write_ca(tmp_path, ca), write_token(tmp_path))
    assert configz.read() == {"cpuManagerPolicy": "static"}


def test_an_authority_without_key_identifiers(tmp_path: Path) -> None:
    """The CAs of many clusters have none, but Python verifies more strictly since 3.13."""
    authority = plain_authority(tmp_path)
    with KubeletServer(authority, "127.0.0.1") as server:  # type: ignore[arg-type]
        assert Configz(server.url, str(authority.ca), write_token(tmp_path), "node-1").read()


class PlainAuthority(NamedTuple):
    """A CA, and the certificate that it has issued for 127.0.0.1."""

    ca: Path
    chain: Path

    def issue_cert(self, *_names: str) -> PlainAuthority:
        return self

    def configure_cert(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self.chain)


def plain_authority(directory: Path) -> PlainAuthority:
    """Return a CA whose certificates have neither key identifiers nor a key usage."""
    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("ca", "node-1")]
    extensions: tuple[x509.ExtensionType, ...] = (
        x509.BasicConstraints(ca=True, path_length=None),
        x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
    )
    files = PlainAuthority(directory / "plain-ca.crt", directory / "plain.pem")
    for name, key, extension, file in zip(names, keys, extensions, files, strict=True):
        builder = x509.CertificateBuilder(names[0], name, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
        certificate = builder.add_extension(extension, critical=True)
        file.write_bytes(certificate.sign(keys[0], hashes.SHA256()).public_bytes(Encoding.PEM))
    key = keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files.chain.write_bytes(key + files.chain.read_bytes())
    return files


def test_the_token_is_read_at_each_fetch(kubelet: KubeletServer, ca: trustme.CA, tmp_path: Path) -> None:
    """The token of a ServiceAccount is replaced every hour."""
    token = write_token(tmp_path)
    configz = Configz(kubelet.url, write_ca(tmp_path, ca), token)
    Path(token).write_text("old")
    assert "HTTP status 401: the kubelet rejects the agent's token" in error_of(configz)
    write_token(tmp_path)
    assert configz.read() == {"cpuManagerPolicy": "static"}
    assert kubelet.authorizations == ["Bearer old", "Bearer let-me-in"]


def test_an_unverified_kubelet_gets_no_token(kubelet: KubeletServer, tmp_path: Path) -> None:
    """A self-signed kubelet or an impostor is rejected; the error has three remedies, and nothing was sent to it."""
    message = error_of(Configz(kubelet.url, write_ca(tmp_path, trustme.CA()), write_token(tmp_path), "node-1"))
    assert "certificate cannot be verified: " in message
    assert all(word in message for word in ("serverTLSBootstrap: true", "kubeletCa", "kubeletConfig"))
    assert kubelet.authorizations == []


def test_a_certificate_may_name_the_node_instead_of_its_address(ca: trustme.CA, tmp_path: Path) -> None:
    """The name of this node is accepted, that of another node is rejected.

    Without a node name, only the address counts.
    """
    files = write_ca(tmp_path, ca), write_token(tmp_path)
    with KubeletServer(ca, "node-1") as kubelet:
        assert Configz(kubelet.url, *files, "node-1").read() == {"cpuManagerPolicy": "static"}
        assert "cannot be verified" in error_of(Configz(kubelet.url, *files, "node-2"))
        assert "cannot be verified" in error_of(Configz(kubelet.url, *files))
        assert kubelet.authorizations == ["Bearer let-me-in"]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (403, b"", "HTTP status 403: the agent's ServiceAccount needs the verb"),
        (404, b"", "HTTP status 404: the kubelet serves no /configz"),
        (302, b"", "HTTP status 302"),
        (599, b"", "HTTP status 599"),
        (200, b"<html>", "the response is not JSON"),
        (200, b"[]", "the response contains no kubeletconfig"),
        (200, b'{"kubeletconfig": 7}', "the response contains no kubeletconfig"),
        (200, b" " * ((4 << 20) + 1), "the response is larger than 4 MiB"),
    ],
)
def test_unusable_responses(
    kubelet: KubeletServer, ca: trustme.CA, tmp_path: Path, status: int, body: bytes, message: str
) -> None:
    """Each is rejected with the URL and the reason."""
    kubelet.status, kubelet.body = status, body
    configz = Configz(kubelet.url, write_ca(tmp_path, ca), write_token(tmp_path))
    assert error_of(configz).startswith(f"{kubelet.url}: {message}")


def test_a_kubelet_that_is_down(ca: trustme.CA, tmp_path: Path) -> None:
    with KubeletServer(ca, "127.0.0.1") as kubelet:
        url = kubelet.url
    configz = Configz(url, write_ca(tmp_path, ca), write_token(tmp_path))
    assert error_of(configz) == f"{url}: no response: [Errno 111] Connection refused"


def test_files_that_are_missing_are_named(kubelet: KubeletServer, ca: trustme.CA, tmp_path: Path) -> None:
    assert error_of(Configz(kubelet.url, f"{tmp_path}/none")).startswith(f"{tmp_path}/none: no CA certificates")
    configz = Configz(kubelet.url, write_ca(tmp_path, ca), f"{tmp_path}/none")
    assert error_of(configz).startswith(f"{tmp_path}/none: no token can be read: ")
    (tmp_path / "ca.crt").write_text("nothing")
    assert error_of(Configz(kubelet.url, f"{tmp_path}/ca.crt")).startswith(
        f"{tmp_path}/ca.crt: no CA certificates can be read: "
    )


@pytest.mark.parametrize("url", ["http://127.0.0.1:10255/configz", "https:///configz", "unix:///configz"])
def test_only_https_is_accepted(url: str) -> None:
    """Plain HTTP would expose the token to anyone."""
    with pytest.raises(KubeletConfigError, match="must be an https URL"):
        open_config(url)


@pytest.mark.parametrize("url", ["https://node:99999/configz", "https://node:abc/configz", "https://[::1/configz"])
def test_a_damaged_url_is_named(url: str) -> None:
    with pytest.raises(KubeletConfigError, match=re.escape(url)):
        open_config(url)


def test_the_last_configuration_remains_while_the_kubelet_restarts(ca: trustme.CA, tmp_path: Path) -> None:
    """A failed request is a problem but leaves the configuration in force. Events of pods alone cause no request."""
    with KubeletServer(ca, "127.0.0.1") as kubelet:
        source = open_config(kubelet.url, ca=write_ca(tmp_path, ca), token=write_token(tmp_path))
        first = source.read()
        assert source.read(refresh=False) is first
        kubelet.configuration = {"cpuManagerPolicy": "none"}
        second = source.read()
        assert len(kubelet.authorizations) == 2
    third = source.read()
    assert first.config is not None
    assert second.config is not None
    assert (first.config.cpu_manager_policy, second.config.cpu_manager_policy) == ("static", "none")
    assert third.config is second.config
    assert third.problem is not None
    assert third.problem.endswith("Connection refused; the last known one is used")
