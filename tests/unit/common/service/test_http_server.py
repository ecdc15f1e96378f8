"""The agent's HTTP server: probes, pages, TLS, and who may see what; over real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trustme

from support.clock import Clock
from support.waiting import PATIENCE
from zonewise.daemon.metrics import AgentMetrics
from zonewise.daemon.site import AgentSite
from zonewise.daemon.status import Snapshot, Status
from zonewise.usage.types import Amount, Usage, ZoneUsage
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.kube.errors import TransportError
from zonewise_common.kube.resources import TOKEN_REVIEWS
from zonewise_common.service.authorizer import CACHE_SECONDS, Authorizer
from zonewise_common.service.http_server import HttpServer
from zonewise_common.service.tls import Certificates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zonewise_common.kube.resources import Resource

USAGE = Usage(
    (ZoneUsage(0, {"cpu": Amount(16, 15, 9)}, CpuSet.parse_list("1-9")),),
    {"example.com/dongle": Amount(2, 2, 1)}, {}, None, "pfp0v001", "pfp0v001",
)  # fmt: skip
KNOWN = "good"
SERVICE = "system:serviceaccount:monitoring:prometheus"


class Answer(NamedTuple):
    status: int
    body: str
    headers: dict[str, str]


class Agent(NamedTuple):
    """What stands behind the pages."""

    clock: Clock
    status: Status
    pages: AgentSite


@pytest.fixture
def agent() -> Agent:
    clock = Clock()
    status = Status(clock)
    status.expect(["nrt"])
    status.set_snapshot(Snapshot("n1", usage=USAGE, labels={"a": "b"}, problems=("something is odd",)))
    meters = AgentMetrics()
    meters.watch(status)
    return Agent(clock, status, AgentSite(status, meters.registry, silence_limit=30, readiness_limit=180))


class Reviews:
    """An API server's answers to reviews: the token "good" is Prometheus', who may get /metrics."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.away = False

    def create(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        if self.away:
            raise TransportError("refused")
        self.asked.append(obj["spec"])
        if resource == TOKEN_REVIEWS:
            known = obj["spec"]["token"] == KNOWN
            return {"status": {"authenticated": known, "user": {"username": SERVICE, "groups": ["g"]}}}
        return {"status": {"allowed": obj["spec"]["nonResourceAttributes"]["path"] == "/metrics"}}


def serve(server: HttpServer) -> Iterator[int]:
    server.start()
    yield server.port
    server.close()


@pytest.fixture
def port(agent: Agent) -> Iterator[int]:
    yield from serve(HttpServer("127.0.0.1:0", agent.pages))


def get(port: int, path: str, method: str = "GET", context: ssl.SSLContext | None = None, **headers: str) -> Answer:
    connection = (
        http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=context)
        if context is not None
        else http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    )
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read().decode(), dict(answer.headers))
    finally:
        connection.close()


def test_health(agent: Agent, port: int) -> None:
    """Healthy while the loop goes round; not when it has been silent for longer than the limit."""
    assert get(port, "/healthz").status == 200
    agent.clock.advance(31)
    answer = get(port, "/healthz")
    assert (answer.status, answer.body) == (503, "the agent has done nothing for 31 s (limit 30 s)\n")
    agent.status.beat()
    assert get(port, "/healthz").status == 200


def test_readiness(agent: Agent, port: int) -> None:
    """Ready from the first good publish on, as long as the last one is not too old."""
    assert get(port, "/readyz").body == "nothing has been published yet\n"
    agent.status.published("nrt")
    assert get(port, "/readyz").status == 200
    agent.clock.advance(181)
    answer = get(port, "/readyz")
    assert (answer.status, answer.body) == (503, "the last good publish is 181 s old (limit 180 s)\n")


def test_metrics(agent: Agent, port: int) -> None:
    """Prometheus gets the amounts of zones, those without a zone, and problems, in a text it understands."""
    agent.status.published("nrt")
    agent.clock.advance(2)
    answer = get(port, "/metrics")
    lines = answer.body.splitlines()
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    for line in (
        'zonewise_zone_available{resource="cpu",zone="0"} 9.0',
        'zonewise_zone_allocatable{resource="cpu",zone="0"} 15.0',
        'zonewise_zone_available{resource="example.com/dongle",zone=""} 1.0',
        'zonewise_problems{source="report"} 1.0',
        "zonewise_published_age_seconds 2.0",
    ):
        assert line in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)


def test_openmetrics(port: int) -> None:
    """A scraper that prefers OpenMetrics gets it."""
    answer = get(port, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.body.endswith("# EOF\n")


def test_state(port: int) -> None:
    """What the agent knows, as JSON."""
    state = json.loads(get(port, "/debug/state").body)
    assert state["node"] == "n1"
    assert state["usage"]["zones"][0]["amounts"]["cpu"] == {"capacity": 16, "allocatable": 15, "available": 9}
    assert state["usage"]["zones"][0]["free_cpus"] == "1-9"
    assert state["problems"]["kubelet"] == ["something is odd"]


def test_the_rest(port: int) -> None:
    """An index, 404 with a hint, HEAD without a body, 405 for what is only to be read, 501 for what nothing takes."""
    assert "/metrics" in get(port, "/").body
    assert get(port, "/nothing").body == "nothing under /nothing; see /\n"
    head = get(port, "/healthz", "HEAD")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, "", "3")
    refused = get(port, "/healthz", "POST")
    assert (refused.status, refused.body) == (405, "/healthz supports GET only\n")
    assert get(port, "/healthz", "DELETE").status == 501


def test_several_requests_on_one_connection(port: int) -> None:
    """Connections are kept, as Prometheus keeps its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    for _ in range(3):
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
    connection.close()


def test_every_address(agent: Agent) -> None:
    """A port alone is reached by IPv4 whether or not the system has IPv6."""
    server = HttpServer(":0", agent.pages)
    for port in serve(server):
        assert get(port, "/healthz").status == 200


def test_a_port_that_is_taken(agent: Agent, port: int) -> None:
    """A port in use is an error at once, not later."""
    with pytest.raises(OSError, match="in use"):
        HttpServer(f"127.0.0.1:{port}", agent.pages)


# --- who may see what


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def guarded(agent: Agent, reviews: Reviews) -> Iterator[int]:
    yield from serve(HttpServer("127.0.0.1:0", agent.pages, authorizer=Authorizer(reviews, clock=agent.clock)))


@pytest.mark.parametrize(
    ("authorization", "path", "status", "body"),
    [
        ("", "/metrics", 401, "a bearer token is needed\n"),
        ("Basic Zm9v", "/metrics", 401, "a bearer token is needed\n"),
        ("Bearer bad", "/metrics", 401, "the token is not valid\n"),
        ("Bearer good", "/debug/state", 403, f"{SERVICE} may not get /debug/state\n"),
    ],
)
def test_refusals(guarded: int, authorization: str, path: str, status: int, body: str) -> None:
    """No token, a bad one, and one that may not: each is told what is wrong."""
    answer = get(guarded, path, Authorization=authorization)
    assert (answer.status, answer.body) == (status, body)
    assert ("WWW-Authenticate" in answer.headers) is (status == 401)


def test_the_entitled(agent: Agent, guarded: int, reviews: Reviews) -> None:
    """Who may is asked about once a minute, and named to the API server with groups and path."""
    for _ in range(3):
        assert get(guarded, "/metrics", Authorization="Bearer good").status == 200
    assert len(reviews.asked) == 2
    assert (reviews.asked[1]["user"], reviews.asked[1]["groups"]) == (SERVICE, ["g"])
    assert reviews.asked[1]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
    agent.clock.advance(CACHE_SECONDS)
    get(guarded, "/metrics", Authorization="Bearer good")
    assert len(reviews.asked) == 4


def test_probes_need_no_token(guarded: int) -> None:
    """The kubelet has no token for us."""
    assert get(guarded, "/healthz").status == 200


def test_an_api_server_that_is_away_is_not_kept(guarded: int, reviews: Reviews) -> None:
    """Nobody gets in while nobody can be asked, and the next one is asked about again."""
    reviews.away = True
    assert get(guarded, "/metrics", Authorization="Bearer good").status == 503
    reviews.away = False
    assert get(guarded, "/metrics", Authorization="Bearer good").status == 200


# --- TLS


class Authority(NamedTuple):
    """A CA, and where the agent's files are."""

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
    made = Authority(trustme.CA(), tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    made.write()
    return made


def serial(port: int, context: ssl.SSLContext) -> Any:
    with (
        socket.create_connection(("localhost", port), PATIENCE) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as s,
    ):
        return (s.getpeercert() or {})["serialNumber"]


def test_tls_with_renewal(agent: Agent, authority: Authority) -> None:
    """A renewed certificate is served to the next client; a broken one leaves the last in force."""
    certificates = Certificates(str(authority.cert), str(authority.key))
    for port in serve(HttpServer("127.0.0.1:0", agent.pages, certificates=certificates)):
        context = authority.trusting()
        assert get(port, "/healthz", context=context).status == 200
        first = serial(port, context)
        authority.write()
        second = serial(port, context)
        assert second != first
        authority.cert.write_text("damaged")
        assert serial(port, context) == second


def test_client_certificates(agent: Agent, authority: Authority) -> None:
    """With a CA of clients, one without a certificate of it gets nothing."""
    certificates = Certificates(str(authority.cert), str(authority.key), str(authority.client_ca))
    for port in serve(HttpServer("127.0.0.1:0", agent.pages, certificates=certificates)):
        context = authority.trusting()
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            get(port, "/healthz", context=context)
        context.load_cert_chain(authority.cert, authority.key)
        assert get(port, "/healthz", context=context).status == 200


def test_a_silent_client_holds_up_nobody(agent: Agent, authority: Authority) -> None:
    """While one connection never begins TLS, others are served."""
    certificates = Certificates(str(authority.cert), str(authority.key))
    for port in serve(HttpServer("127.0.0.1:0", agent.pages, certificates=certificates)):
        with socket.create_connection(("127.0.0.1", port), PATIENCE):
            assert get(port, "/healthz", context=authority.trusting()).status == 200


def test_unusable_certificates(tmp_path: Path) -> None:
    """Files that are absent or no certificates are an error at the start."""
    with pytest.raises(OSError, match="No such file"):
        Certificates(str(tmp_path / "a"), str(tmp_path / "b"))
