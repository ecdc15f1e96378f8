"""The HTTP server over real sockets: requests, connections, TLS and authorization."""

from __future__ import annotations

import http.client
import socket
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trustme

from support.clock import Clock
from support.http_requests import get, serve
from support.waiting import PATIENCE
from zonewise_common.kube.errors import TransportError
from zonewise_common.kube.resources import TOKEN_REVIEWS
from zonewise_common.service.authorizer import CACHE_SECONDS, Authorizer
from zonewise_common.service.handlers import GetHandler, Request, Response, is_loopback, text_response
from zonewise_common.service.http_messages import RETRY_AFTER
from zonewise_common.service.http_server import HttpServer
from zonewise_common.service.review_budget import CLIENT_BURST
from zonewise_common.service.tls import Certificates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zonewise_common.kube.resources import Resource

TOKEN = "good"  # noqa: S105 -- of this test
ALLOWED_URLS = {"/metrics", "/zonewise/api/v1/queues"}
USER = "system:serviceaccount:monitoring:prometheus"


def _ok(_request: Request) -> Response:
    return text_response(200, "ok\n")


def _fail(_request: Request) -> Response:
    raise ZeroDivisionError


def _echo(request: Request) -> Response:
    return text_response(200, f"{request.path} {request.query}")


HANDLER = GetHandler({
    "/healthz": _ok, "/metrics": _ok, "/debug/state": _ok, "/broken": _fail, "/api/v1/queues": _ok, "/tree/*": _echo
})  # fmt: skip


class Reviews:
    """Reviews of an API server: TOKEN belongs to USER, and USER may get ALLOWED_URLS."""

    def __init__(self) -> None:
        self.specs: list[dict[str, Any]] = []
        self.unreachable = False

    def create(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        if self.unreachable:
            raise TransportError("refused")
        self.specs.append(obj["spec"])
        if resource == TOKEN_REVIEWS:
            valid = obj["spec"]["token"] == TOKEN
            return {"status": {"authenticated": valid, "user": {"username": USER, "groups": ["g"]}}}
        return {"status": {"allowed": obj["spec"]["nonResourceAttributes"]["path"] in ALLOWED_URLS}}


@pytest.fixture
def port() -> Iterator[int]:
    yield from serve(HttpServer("127.0.0.1:0", HANDLER))


def test_other_paths_and_methods(port: int) -> None:
    """404 with a hint, HEAD without a body, 405 for another method of a known path, and 501 for an unknown method."""
    assert get(port, "/nothing").body == "nothing is served under /nothing; see /\n"
    head = get(port, "/healthz", "HEAD")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, "", "3")
    rejected = get(port, "/healthz", "POST")
    assert (rejected.status, rejected.body) == (405, "/healthz supports GET only\n")
    assert get(port, "/healthz", "DELETE").status == 501


def test_a_handler_that_fails(port: int) -> None:
    """The client gets a response, and the server still serves."""
    assert get(port, "/broken").status == 500
    assert get(port, "/healthz").status == 200


def test_several_requests_on_one_connection(port: int) -> None:
    """Connections are reused, as by Prometheus."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    for _ in range(3):
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
    connection.close()


def test_every_address() -> None:
    """A port without an address is reachable over IPv4, with or without IPv6 on the system."""
    server = HttpServer(":0", HANDLER)
    for port in serve(server):
        assert get(port, "/healthz").status == 200


def test_a_port_in_use(port: int) -> None:
    """The constructor raises the error at once."""
    with pytest.raises(OSError, match="in use"):
        HttpServer(f"127.0.0.1:{port}", HANDLER)


# --- authorization


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guarded(clock: Clock, reviews: Reviews) -> Iterator[int]:
    yield from serve(HttpServer("127.0.0.1:0", HANDLER, authorizer=Authorizer(reviews, clock=clock)))


@pytest.mark.parametrize(
    ("authorization", "path", "status", "body"),
    [
        ("", "/metrics", 401, "a bearer token is required\n"),
        ("Basic Zm9v", "/metrics", 401, "a bearer token is required\n"),
        ("Bearer bad", "/metrics", 401, "the token is not valid\n"),
        ("Bearer good", "/debug/state", 403, f"{USER} may not get /debug/state\n"),
        ("Bearer good", "/api/v1/plan", 403, f"{USER} may not get /zonewise/api/v1/plan\n"),
    ],
)
def test_rejections(guarded: int, authorization: str, path: str, status: int, body: str) -> None:
    """A missing, an invalid and an unauthorized token are rejected with the reason."""
    response = get(guarded, path, Authorization=authorization)
    assert (response.status, response.body) == (status, body)
    assert ("WWW-Authenticate" in response.headers) is (status == 401)


def test_a_token_in_a_header_that_the_api_server_passes_on(guarded: int) -> None:
    """The token is reviewed like that of Authorization, which has precedence. Reviews use the read API's own URLs."""
    by_header: dict[str, Any] = {"X-Zonewise-Token": "good"}
    guessed: dict[str, Any] = {"X-Zonewise-Token": "bad"}
    assert get(guarded, "/api/v1/queues", **by_header).status == 200
    assert get(guarded, "/debug/state", **by_header).status == 403
    assert get(guarded, "/api/v1/queues", **guessed).status == 401
    assert get(guarded, "/api/v1/queues", **by_header, Authorization="Bearer bad").status == 401


def test_paths_that_need_no_token(reviews: Reviews) -> None:
    server = HttpServer("127.0.0.1:0", HANDLER, authorizer=Authorizer(reviews), public_paths=("/metrics",))
    for port in serve(server):
        assert [get(port, path).status for path in ("/metrics", "/debug/state", "/metrics/")] == [200, 401, 401]


def test_an_authorized_user(clock: Clock, guarded: int, reviews: Reviews) -> None:
    """A decision is cached for a minute; the reviews have the user, the groups and the path."""
    for _ in range(3):
        assert get(guarded, "/metrics", Authorization="Bearer good").status == 200
    assert len(reviews.specs) == 2
    assert (reviews.specs[1]["user"], reviews.specs[1]["groups"]) == (USER, ["g"])
    assert reviews.specs[1]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
    clock.advance(CACHE_SECONDS)
    get(guarded, "/metrics", Authorization="Bearer good")
    assert len(reviews.specs) == 4


def test_probes_need_no_token(guarded: int) -> None:
    """The kubelet has no token."""
    assert get(guarded, "/healthz").status == 200


def test_an_unreachable_api_server_is_not_cached(guarded: int, reviews: Reviews) -> None:
    """Without a review there is no access, and the next request is reviewed again."""
    reviews.unreachable = True
    assert get(guarded, "/metrics", Authorization="Bearer good").status == 503
    reviews.unreachable = False
    assert get(guarded, "/metrics", Authorization="Bearer good").status == 200


def test_guessed_tokens_are_limited(clock: Clock, guarded: int, reviews: Reviews) -> None:
    """Requests beyond the budget get 429 with Retry-After and cost no review. Cached decisions are still used."""
    assert get(guarded, "/metrics", Authorization="Bearer good").status == 200
    statuses = [get(guarded, "/metrics", Authorization=f"Bearer {number}").status for number in range(50)]
    assert statuses == [401] * (CLIENT_BURST - 1) + [429] * (51 - CLIENT_BURST)
    assert len(reviews.specs) == 2 + CLIENT_BURST - 1
    limited = get(guarded, "/metrics", Authorization="Bearer guess")
    assert (limited.status, limited.headers["Retry-After"]) == (429, str(RETRY_AFTER))
    assert limited.body.startswith("too many requests with new tokens or paths, from this client")
    assert get(guarded, "/metrics", Authorization="Bearer 0").body == "the token is not valid\n"  # cached
    clock.advance(RETRY_AFTER)
    assert get(guarded, "/metrics", Authorization="Bearer guess").status == 401


def test_strangers_cost_a_token_in_use_nothing(clock: Clock, guarded: int) -> None:
    """A token's user is served with all caches full and no budget left, even if the decision is due for a review."""
    assert get(guarded, "/metrics", Authorization="Bearer good").status == 200
    for _ in range(3):
        for number in range(CLIENT_BURST + 1):
            get(guarded, "/metrics", Authorization=f"Bearer {clock()} {number}")
        assert get(guarded, "/metrics", Authorization="Bearer new").status == 429
        assert get(guarded, "/metrics", Authorization="Bearer good").status == 200
        clock.advance(CACHE_SECONDS)
        for number in range(CLIENT_BURST + 1):
            get(guarded, "/metrics", Authorization=f"Bearer {clock()} {number}")
        assert get(guarded, "/metrics", Authorization="Bearer good").status == 200


# --- TLS


class Authority(NamedTuple):
    """A CA, and the files of a server certificate."""

    ca: trustme.CA
    cert: Path
    key: Path
    client_ca: Path

    def write(self) -> None:
        """Issue a new certificate."""
        issued = self.ca.issue_cert("localhost")
        self.key.write_bytes(issued.private_key_pem.bytes())
        self.cert.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        self.client_ca.write_bytes(self.ca.cert_pem.bytes())

    def trusting(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.load_verify_locations(cadata=self.ca.cert_pem.bytes().decode())
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    authority = Authority(trustme.CA(), tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    authority.write()
    return authority


def serial(port: int, context: ssl.SSLContext) -> Any:
    with (
        socket.create_connection(("localhost", port), PATIENCE) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as s,
    ):
        return (s.getpeercert() or {})["serialNumber"]


def test_tls_with_renewal(authority: Authority) -> None:
    """The next client gets a renewed certificate; an invalid file leaves the last valid certificate in use."""
    certificates = Certificates(str(authority.cert), str(authority.key))
    for port in serve(HttpServer("127.0.0.1:0", HANDLER, certificates=certificates)):
        context = authority.trusting()
        assert get(port, "/healthz", context=context).status == 200
        first = serial(port, context)
        authority.write()
        second = serial(port, context)
        assert second != first
        authority.cert.write_text("damaged")
        assert serial(port, context) == second


def test_client_certificates(authority: Authority) -> None:
    """With a CA for clients, a client without a certificate gets no response."""
    certificates = Certificates(str(authority.cert), str(authority.key), str(authority.client_ca))
    for port in serve(HttpServer("127.0.0.1:0", HANDLER, certificates=certificates)):
        context = authority.trusting()
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            get(port, "/healthz", context=context)
        context.load_cert_chain(authority.cert, authority.key)
        assert get(port, "/healthz", context=context).status == 200


def test_a_silent_client_delays_no_other(authority: Authority) -> None:
    """While one connection sends no handshake, others are served."""
    certificates = Certificates(str(authority.cert), str(authority.key))
    for port in serve(HttpServer("127.0.0.1:0", HANDLER, certificates=certificates)):
        with socket.create_connection(("127.0.0.1", port), PATIENCE):
            assert get(port, "/healthz", context=authority.trusting()).status == 200


def test_unusable_certificates(tmp_path: Path) -> None:
    """Absent files are an error at the start."""
    with pytest.raises(OSError, match="No such file"):
        Certificates(str(tmp_path / "a"), str(tmp_path / "b"))


# --- details about nodes and pods


def _host_address() -> str:
    """Return an address of this host other than loopback; connect() of UDP sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host has the loopback interface only")
        return probe.getsockname()[0]


def test_details_are_for_local_clients() -> None:
    """Without tokens, /debug and /api are served only on the loopback interface; metrics are served to all."""
    for port in serve(HttpServer(":0", HANDLER)):
        assert get(port, "/metrics", host=_host_address()).status == 200
        for path in ("/debug/state", "/api/v1/queues"):
            assert get(port, path).status == 200
            rejected = get(port, path, host=_host_address())
            assert rejected.status == 403
            assert "metricsAuth: token" in rejected.body


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("::2", False),
        ("1270::", False),
        ("", False),
    ],
)
def test_loopback_addresses(address: str, loopback: bool) -> None:
    """Addresses as the kernel writes them, including IPv4 addresses on an IPv6 socket."""
    assert is_loopback(address) is loopback


def test_a_path_below_a_prefix_is_served_with_its_query(port: int) -> None:
    found = get(port, "/tree/a/b?limit=2&x=%20")
    assert (found.status, found.body) == (200, "/tree/a/b limit=2&x=%20")
    assert get(port, "/tree/").status == 404
    assert get(port, "/trees/a").status == 404


def test_static_files_need_no_token_and_establish_no_connection(reviews: Reviews) -> None:
    """A browser loads the page before its user has entered a token, and strangers gain nothing from it."""
    handler = GetHandler({"/page/*": _ok, "/": _ok, "/api/v1/queues": _ok})
    server = HttpServer("127.0.0.1:0", handler, authorizer=Authorizer(reviews))
    for port in serve(server):
        assert get(port, "/page/page.js").status == 200
        assert get(port, "/").status == 200
        assert get(port, "/api/v1/queues").status == 401
        assert get(port, "/page/../api/v1/queues").status == 200  # from the handler of files, which has no such name
    assert reviews.specs == []
