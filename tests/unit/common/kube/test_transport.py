"""Connections: reused, verified, limited in time, and without tokens in any output."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING

import pytest
import trustme

from support.kube_faults import (
    Exchange,
    ScriptedServer,
    as_dict,
    event,
    give,
    pod,
    pods,
    refuse,
    watch_on,
    watch_once,
)
from support.waiting import PATIENCE, eventually
from zonewise_common.kube import connection_pool
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Certificate, Config
from zonewise_common.kube.credentials import FileToken
from zonewise_common.kube.errors import BadResponse, ConfigError, KubeError, NotFound, TransportError, Unauthorized
from zonewise_common.kube.reflector import Reflector
from zonewise_common.kube.resources import NODES, PODS
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from pathlib import Path

    from support.kube_faults import Answer

NODE = give(200, {"metadata": {"name": "n1"}})


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    return serve_as(authority, "localhost", "api.example")


@pytest.fixture(scope="module")
def ca(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


def serve_as(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = authority.issue_cert(*names)
    with issued.private_key_and_cert_chain_pem.tempfile() as file:
        context.load_cert_chain(file)
    return context


def ignore(*_: object) -> None:
    """Ignore any change."""


def quick(config: Config) -> Client:
    return Client(config, timeout=PATIENCE)


# --- TLS


def test_the_right_authority(tls: ssl.SSLContext, ca: str, tmp_path: Path) -> None:
    """The client connects to a server whose certificate the authority has signed, given as PEM or as a file."""
    file = tmp_path / "ca.crt"
    file.write_text(ca)
    with ScriptedServer([NODE], tls=tls) as server:
        for token in (ca, str(file)):
            client = quick(Config.from_url(server.url, ca=token))
            assert client.get(NODES, "n1")["metadata"]["name"] == "n1"
            client.close()


def test_a_wrong_authority(tls: ssl.SSLContext) -> None:
    """Any other server is rejected before it receives a request or a token."""
    second = trustme.CA().cert_pem.bytes().decode()
    with ScriptedServer([NODE], tls=tls) as server:
        client = quick(Config.from_url(server.url, "secret", ca=second))
        with pytest.raises(TransportError, match="certificate verify failed"):
            client.get(NODES, "n1")
        assert server.requests == []


def test_the_systems_authorities(tls: ssl.SSLContext) -> None:
    """Without a configured authority, only the system's authorities are trusted."""
    rejected = pytest.raises(TransportError, match="certificate verify failed")
    with ScriptedServer([NODE], tls=tls) as server, rejected:
        quick(Config.from_url(server.url)).get(NODES, "n1")


def test_a_wrong_name(tls: ssl.SSLContext, ca: str) -> None:
    """The certificate must be valid for the URL's host, or for the configured server name."""
    with ScriptedServer([NODE], tls=tls) as server:
        config = Config.from_url(server.url.replace("localhost", "127.0.0.1"), ca=ca)
        with pytest.raises(TransportError, match="IP address mismatch"):
            quick(config).get(NODES, "n1")
        client = quick(config._replace(server_name="api.example"))
        assert client.get(NODES, "n1")
        client.close()


def serve_known_clients(authority: trustme.CA) -> ssl.SSLContext:
    context = serve_as(authority, "localhost")
    context.load_verify_locations(cadata=authority.cert_pem.bytes().decode())
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def issue_client_certificate(authority: trustme.CA, directory: Path, name: str) -> Certificate:
    """Write a client certificate, replacing the last one in the directory."""
    chain, key = directory / "chain.pem", directory / "key.pem"
    issued = authority.issue_cert(name)
    chain.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return Certificate(str(chain), str(key))


def test_a_client_certificate(authority: trustme.CA, ca: str, tmp_path: Path) -> None:
    """If the server requires a client certificate, the client sends its own; without one the connection fails."""
    certificate = issue_client_certificate(authority, tmp_path, "agent.example")
    with ScriptedServer([NODE], tls=serve_known_clients(authority)) as server:
        config = Config.from_url(server.url, ca=ca)
        client = quick(config._replace(certificate=certificate))
        assert client.get(NODES, "n1")
        client.close()
        with pytest.raises(TransportError):
            quick(config).get(NODES, "n1")


def accept_new_certificates(exchange: Exchange) -> None:
    """Respond as Go does to an expired client certificate: TLS succeeds."""
    answer = NODE if exchange.client_names == ["new.example"] else refuse(401, "Unauthorized")
    answer(exchange)


def test_a_client_certificate_that_is_renewed(authority: trustme.CA, ca: str, tmp_path: Path) -> None:
    """After a 401, the files are read again, and the request is repeated once over a new connection."""
    old = issue_client_certificate(authority, tmp_path, "old.example")
    with ScriptedServer([accept_new_certificates], tls=serve_known_clients(authority)) as server:
        client = quick(Config(server.url, ca, certificate=old))
        for _ in range(2):  # the same certificate would fail again
            with pytest.raises(Unauthorized):
                client.get(NODES, "n1")
        issue_client_certificate(authority, tmp_path, "new.example")
        for _ in range(2):
            assert client.get(NODES, "n1")
        assert [request.connection for request in server.requests] == [0, 0, 0, 1, 1]
        client.close()


def test_a_client_certificate_from_a_program(authority: trustme.CA, ca: str, tmp_path: Path) -> None:
    """After a 401, the program issues the next certificate in other files."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old, new = (issue_client_certificate(authority, tmp_path / name, f"{name}.example") for name in ("old", "new"))
    with ScriptedServer([accept_new_certificates], tls=serve_known_clients(authority)) as server:
        client = quick(Config(server.url, ca, certificate=old, load_certificate=lambda: new))
        for _ in range(2):
            assert client.get(NODES, "n1")
        assert [request.connection for request in server.requests] == [0, 1, 1]
        client.close()


def test_a_client_certificate_that_is_half_written(authority: trustme.CA, ca: str, tmp_path: Path) -> None:
    """The error is the server's 401 until both files are complete."""
    old = issue_client_certificate(authority, tmp_path, "old.example")
    with ScriptedServer([accept_new_certificates], tls=serve_known_clients(authority)) as server:
        client = quick(Config(server.url, ca, certificate=old))
        issue_client_certificate(authority, tmp_path, "new.example")
        key = tmp_path / "key.pem"
        content = key.read_bytes()
        for damage in (key.unlink, lambda: key.write_bytes(content[:100])):
            damage()
            with pytest.raises(Unauthorized):
                client.get(NODES, "n1")
        key.write_bytes(content)
        assert client.get(NODES, "n1")
        client.close()


def test_an_authority_that_is_replaced(tls: ssl.SSLContext, ca: str, tmp_path: Path) -> None:
    """After a failure the authority's file is read again, because a cluster's authority may change while agents run."""
    file = tmp_path / "ca.crt"
    file.write_bytes(trustme.CA().cert_pem.bytes())
    with ScriptedServer([NODE], tls=tls) as server:
        client = quick(Config.from_url(server.url, ca=str(file)))
        with pytest.raises(TransportError):
            client.get(NODES, "n1")
        file.write_text(ca)
        with pytest.raises(TransportError):
            client.get(NODES, "n1")
        assert client.get(NODES, "n1")
        client.close()


def test_an_authority_that_is_replaced_in_a_kubeconfig(tls: ssl.SSLContext, ca: str, tmp_path: Path) -> None:
    """A kubeconfig may contain the authority itself."""
    file = tmp_path / "config"

    def write(server: ScriptedServer, authority: str) -> None:
        cluster = {"server": server.url, "certificate-authority-data": base64.b64encode(authority.encode()).decode()}
        parts = {"clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": {"token": "t"}}]}
        contexts = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
        file.write_text(json.dumps({**parts, "contexts": contexts, "current-context": "x"}))

    with ScriptedServer([NODE], tls=tls) as server:
        write(server, trustme.CA().cert_pem.bytes().decode())
        client = quick(Config.from_kubeconfig(str(file)))
        for damage in (lambda: None, lambda: file.write_text("{"), lambda: write(server, ca)):
            damage()
            with pytest.raises(KubeError):
                client.get(NODES, "n1")
        assert client.get(NODES, "n1")
        client.close()


def test_a_watch_over_tls_is_cut_at_once(tls: ssl.SSLContext, ca: str) -> None:
    """Closing from another thread works on an encrypted stream too."""
    with ScriptedServer([give(200, pods(1))], [watch_on(event("ADDED", pod("a", 2)))], tls=tls) as server:
        client = quick(Config.from_url(server.url, ca=ca))
        reflector = Reflector(client, PODS, as_dict, ignore)
        reflector.start()
        eventually(lambda: reflector.get("a", "default") is not None)
        began = time.monotonic()
        reflector.close(timeout=PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2
        client.close()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (Config.from_url("https://host", ca="/nowhere/ca.crt"), "/nowhere/ca.crt"),
        (Config.from_url("https://host", ca="-----BEGIN CERTIFICATE-----\nx"), "given as text"),
        (Config("https://host", certificate=Certificate("/nowhere/a", "/nowhere/b")), "/nowhere/a, /nowhere/b"),
        (Config.from_url("ftp://host"), "is not a URL"),
        (Config.from_url("host:6443"), "is not a URL"),
        (Config.from_url("http://host:port"), "http://host:port"),
    ],
)
def test_a_bad_configuration_is_named(config: Config, words: str) -> None:
    """The constructor raises the error, not the first request."""
    with pytest.raises(ConfigError, match=words):
        Client(config)


# --- the server's clock


def test_the_time_of_the_server() -> None:
    """The server's time is the Date header of the last response that has one, even if that is an error."""
    one, two, three = (f"Sun, 09 Sep 2001 01:46:{second} GMT" for second in (40, 41, 42))
    answers = [
        give(200, {}),
        give(200, {}, {"Date": one}),
        refuse(404, "NotFound", headers={"Date": two}),
        give(200, {}),
        give(200, {}, {"Date": "soon"}),
        give(200, {}, {"Date": three}),
    ]
    times: list[float | None] = []
    with ScriptedServer(answers) as server:
        client = quick(Config.from_url(server.url))
        for _ in answers:
            with contextlib.suppress(NotFound):
                client.get(NODES, "n1")
            times.append(client.server_time)
        client.close()
    assert times == [None, 1e9, 1e9 + 1, 1e9 + 1, None, 1e9 + 2]


# --- tokens


def test_token_rotation(tmp_path: Path) -> None:
    """After a 401, the token is read again, and the request is repeated once with the new token."""
    file = tmp_path / "token"
    file.write_text("old\n")

    def judge(exchange: Exchange) -> None:
        response = NODE if exchange.request.headers["authorization"] == "Bearer new" else refuse(401, "Unauthorized")
        response(exchange)

    with ScriptedServer([judge]) as server:
        client = quick(Config(server.url, credentials=FileToken(file)))
        with pytest.raises(Unauthorized):
            client.get(NODES, "n1")
        assert len(server.requests) == 1  # the same token would fail again
        file.write_text("new\n")
        assert client.get(NODES, "n1")
        assert [request.headers["authorization"] for request in server.requests[1:]] == ["Bearer old", "Bearer new"]
        client.close()


class LostToken:
    """Credentials whose source has failed after the first token."""

    def header(self, *, fresh: bool = False) -> str:
        if fresh:
            raise ConfigError("the program has failed")
        return "Bearer old"


def test_credentials_that_cannot_be_renewed(caplog: pytest.LogCaptureFixture) -> None:
    """The error is the server's 401, the log has the cause, and the connection is reused."""
    with ScriptedServer([refuse(401, "Unauthorized")]) as server:
        client = quick(Config(server.url, credentials=LostToken()))
        for _ in range(2):
            with pytest.raises(Unauthorized):
                client.get(NODES, "n1")
        assert [request.connection for request in server.requests] == [0, 0]
        assert "cannot be renewed: the program has failed" in caplog.text
        client.close()


def test_no_token_is_ever_printed(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """No log at any level, no error and no repr contains it."""
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "token"
    file.write_text("very-secret")
    output: list[str] = []
    responses = [refuse(401, "Unauthorized"), refuse(500, "InternalError"), Exchange.reset, NODE]
    with ScriptedServer(responses) as server:
        for config in (Config.from_url(server.url, "very-secret"), Config(server.url, credentials=FileToken(file))):
            client = quick(config)
            output += [repr(config), repr(config.credentials), repr(client)]
            for _ in range(4):
                try:
                    client.get(NODES, "n1")
                except KubeError as error:
                    output.append(repr(error) + str(error) + repr(error.__cause__))
            client.close()
    file.write_text("very-secret\nwith a line end")
    with pytest.raises(ConfigError) as damaged:
        FileToken(file).header()
    output.append(str(damaged.value))
    assert "very-secret" not in caplog.text + "".join(output)


# --- connections and time


def test_connections_are_reused() -> None:
    """Successive requests use one connection, even after error responses and after watches that ended cleanly."""
    with ScriptedServer([NODE, refuse(404, "NotFound"), NODE], [watch_once()]) as server:
        client = quick(Config.from_url(server.url))
        client.get(NODES, "n1")
        with client.watch(PODS, resource_version="1") as watch:
            assert list(watch) == []
        with pytest.raises(KubeError):
            client.get(NODES, "n2")
        client.get(NODES, "n1")
        assert {request.connection for request in server.requests} == {0}
        client.close()


def test_many_threads() -> None:
    """A client serves many threads at once; each gets its own response."""

    def echo(exchange: Exchange) -> None:
        give(200, {"metadata": {"name": exchange.request.path.rpartition("/")[2]}})(exchange)

    wrong: list[str] = []

    def request(client: Client, number: int) -> None:
        for round_number in range(20):
            name = f"n-{number}-{round_number}"
            if client.get(NODES, name)["metadata"]["name"] != name:
                wrong.append(name)

    with ScriptedServer([echo]) as server:
        client = quick(Config.from_url(server.url))
        threads = [threading.Thread(target=request, args=(client, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(server.requests) == 160
        assert wrong == []
        client.close()


def drip(exchange: Exchange) -> None:
    exchange.begin()
    for _ in range(1000):
        exchange.chunk(b" ")
        time.sleep(0.05)


def silence_within(exchange: Exchange) -> None:
    exchange.begin()
    exchange.chunk(b"{")
    exchange.stay_silent()


@pytest.mark.parametrize("hang", [Exchange.stay_silent, silence_within, drip])
def test_a_request_ends_in_time(hang: Answer) -> None:
    """The timeout applies to the whole request, however slowly a server responds."""
    with ScriptedServer([hang]) as server:
        client = Client(Config.from_url(server.url), timeout=0.2)
        began = time.monotonic()
        with pytest.raises(TransportError):
            client.get(NODES, "n1")
        assert time.monotonic() - began < PATIENCE / 2
        client.close()


def test_a_response_cut_short() -> None:
    """A response shorter than its Content-Length is an error."""

    def cut(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}")
        exchange.hang_up()

    with ScriptedServer([cut]) as server:
        client = quick(Config.from_url(server.url))
        with pytest.raises(BadResponse, match="truncated"):
            client.get(NODES, "n1")


def test_no_server() -> None:
    """The error contains the system's message and the request."""
    rejected = pytest.raises(TransportError, match=r"GET /api/v1/nodes/n1: .*refused")
    with reserved_port() as port, rejected:
        quick(Config.from_url(f"http://127.0.0.1:{port}")).get(NODES, "n1")


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning", "error::ResourceWarning")
def test_another_address_of_a_host_is_tried_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that does not respond gets only a part of the timeout: another address of the host may work."""
    with (
        ScriptedServer([NODE]) as server,
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        contextlib.ExitStack() as queue,
    ):
        for _ in range(2):  # the backlog is full: the kernel drops further connections (listen(2))
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        addresses = full.getsockname(), ("127.0.0.1", server.port)

        def resolve(*_: object, **__: object) -> list[tuple[object, ...]]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        client = Client(Config.from_url(server.url), timeout=2.0)
        assert client.get(NODES, "n1")["metadata"]["name"] == "n1"
        client.close()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning", "error::ResourceWarning")
def test_a_refused_socket_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """If connecting fails, the socket is closed."""
    monkeypatch.setattr(connection_pool, "_SOCKET_OPTIONS", ((socket.SOL_SOCKET, -1, 1),))
    with ScriptedServer([NODE]) as server, pytest.raises(TransportError, match="not available"):
        quick(Config.from_url(server.url)).get(NODES, "n1")


def test_failures_are_counted() -> None:
    """Failures are counted by method and reason if a retry may help: neither a missing object nor a conflict counts."""
    answers = [refuse(429, "TooManyRequests"), refuse(500, "InternalError"), refuse(503, "ServiceUnavailable"),
               refuse(404, "NotFound"), refuse(409, "Conflict"), Exchange.hang_up, NODE]  # fmt: skip
    with ScriptedServer(answers) as server:
        client = quick(Config.from_url(server.url))
        for _ in answers[:-1]:
            with pytest.raises(KubeError):
                client.get(NODES, "n1")
        assert client.get(NODES, "n1")
        client.close()
    assert client.request_failures() == {("GET", "429"): 1, ("GET", "5xx"): 2, ("GET", "connection"): 1}


def test_no_redirect_is_followed() -> None:
    """A token is for one server, so a redirect to another one is an error."""
    elsewhere = give(302, b"", {"Location": "http://127.0.0.1:1/"})
    with ScriptedServer([elsewhere]) as server:
        with pytest.raises(KubeError, match="302"):
            quick(Config.from_url(server.url, "secret")).get(NODES, "n1")
        assert len(server.requests) == 1


def test_socket_options() -> None:
    """Small requests are sent at once, and a dead peer is detected."""
    with ScriptedServer([NODE], [watch_on()]) as server:
        client = quick(Config.from_url(server.url))
        client.get(NODES, "n1")
        connection = client._transport._connections._acquire()  # pyright: ignore[reportPrivateUsage]
        sock = connection.sock
        assert sock is not None
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        sock.close()
        client.close()
