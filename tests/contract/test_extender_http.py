"""The extender's HTTP interface for kube-scheduler and others: valid and invalid requests over real sockets."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from support.extender import Caller, Extender, build_nrt, build_pod, new_cluster, running_extender
from support.ledger_kubelets import SHARED, SINGLE, node_kind, pod_shape
from support.waiting import PATIENCE
from zonewise_common import __version__
from zonewise_scheduler.admission.node import idle_node

if TYPE_CHECKING:
    from collections.abc import Generator

NODES = ("node-a", "node-b", "node-aa")
ASKS = pod_shape((5, 0))


class Site(NamedTuple):
    """An extender for three idle nodes, with the verb bind."""

    extender: Extender
    caller: Caller
    numbers: list[int]

    def pod(self, name: str = "p", **changes: Any) -> dict[str, Any]:
        """Return a new pod that is unknown to the API server."""
        built = build_pod(name, ASKS)
        self.numbers[0] += 1
        built["metadata"]["uid"] = f"uid-{self.numbers[0]}"
        return built | changes

    def arguments(self, **changes: Any) -> dict[str, Any]:
        return {"Pod": self.pod(), "Nodes": None, "NodeNames": list(NODES)} | changes


@pytest.fixture(scope="module")
def site() -> Generator[Site]:
    with new_cluster() as world:
        for name in NODES:
            world.add_node(name)
            # large enough for the assumed pods of all these tests, in any order and at any speed
            world.publish(build_nrt(name, idle_node(node_kind(SINGLE, gpus=0, cpus=500))))
        with running_extender("--api-server", world.server.url, "--bind", "true", "--assume-timeout", "1s") as extender:
            extender.until(extender.ready)
            with contextlib.closing(Caller(extender)) as caller:
                yield Site(extender, caller, [0])
            extender.close()


def node_object(name: str) -> dict[str, Any]:
    """Return a whole Node object, with unknown fields."""
    return {"metadata": {"name": name, "labels": {"x": "y"}, "new": [1.5, None]}, "spec": {"podCIDR": "10.0.0.0/24"}}


# --- valid requests


def test_one_node_by_name(site: Site) -> None:
    """The response contains one of the names, and has the fields of Go's type."""
    answer = site.caller.call("filter", site.arguments()).json
    assert len(answer["NodeNames"]) == 1
    assert set(answer["NodeNames"]) <= set(NODES)
    assert answer == {
        "Nodes": None, "NodeNames": answer["NodeNames"], "FailedNodes": None, "FailedAndUnresolvableNodes": {},
        "Error": "",
    }  # fmt: skip


def test_one_node_whole(site: Site) -> None:
    """If the caller sends whole nodes, the response contains the node unchanged to the last byte."""
    items = [node_object(name) for name in NODES]
    reply = site.caller.call("filter", site.arguments(Nodes={"items": items}, NodeNames=None))
    assert reply.json["NodeNames"] is None
    [node] = reply.json["Nodes"]["items"]
    assert node in items
    assert json.dumps(node) in reply.text


def test_a_pod_that_no_kubelet_aligns(site: Site) -> None:
    """A pod that no kubelet aligns passes every node, in both forms of requests."""
    pod = build_pod("s", SHARED)
    pod["metadata"]["uid"] = "uid-s"
    names = [*NODES, "unknown"]
    assert site.caller.filter(pod, names).json["NodeNames"] == names
    items = [node_object(name) for name in names]
    whole = site.caller.call("filter", {"Pod": pod, "Nodes": {"items": items}, "NodeNames": None})
    assert whole.json["Nodes"]["items"] == items


def test_reasons_by_name(site: Site) -> None:
    """If no node passes, each node has its reason, and is marked as one that preemption cannot change."""
    reply = site.caller.filter(site.pod(spec={"containers": [_guaranteed("501")]}), [*NODES, "node-z"])
    assert reply.selected_node == ""
    assert reply.reasons.pop("node-z").startswith("node(s) without a report of zones")
    assert reply.reasons.keys() == {*NODES, "node-z"}
    assert set(reply.reasons.values()) >= {"node(s) would reject it: needs 501 CPUs in one zone"}


def _guaranteed(cpus: str) -> dict[str, Any]:
    amounts = {"cpu": cpus, "memory": "1Gi"}
    return {"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}


def test_names_that_contain_others(site: Site) -> None:
    """A name that is part of a candidate's name is not a candidate."""
    assert site.caller.filter(site.pod(), ["node-aa"]).selected_node == "node-aa"
    assert site.caller.filter(site.pod(), ["node", "ode-a", "node-aaa"]).selected_node == ""


def test_names_with_escapes(site: Site) -> None:
    """Names are decoded as JSON, even if other clients encode them differently from Go."""
    body = json.dumps(site.arguments(NodeNames=["@"])).replace("@", "\\u006eode-a").encode()
    assert site.caller.send("/filter", body).selected_node in ("node-a", "")


def test_priorities(site: Site) -> None:
    """Each node has a score from 0 to 10, in the order of the request. A single node has 10, an unknown node 0."""
    names = ["node-z", *NODES]
    scores = site.caller.call("prioritize", site.arguments(NodeNames=names)).json
    assert [score["Host"] for score in scores] == names
    assert all(0 <= score["Score"] <= 10 for score in scores)
    assert scores[0]["Score"] == 0
    alone = site.caller.call("prioritize", site.arguments(NodeNames=["node-b"])).json
    assert alone == [{"Host": "node-b", "Score": 10}]


def test_many_calls_on_one_connection(site: Site) -> None:
    """One connection serves many calls, including invalid ones, and none waits for a delayed acknowledgement."""
    site.caller.filter(site.pod(), NODES)
    socket_before = site.caller.connection.sock
    for _ in range(20):
        assert site.caller.send("/filter", b"{}").status == 400
        assert site.caller.filter(site.pod(), NODES).status == 200
    assert site.caller.connection.sock is socket_before


# --- invalid requests


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"no JSON", "malformed"),
        (b"[]", "Expected `object`"),
        (b"null", "Expected `object`"),
        (b"{}", "`Pod`"),
        (b'{"Pod":null,"NodeNames":["n"]}', "$.Pod"),
        (b'{"Pod":[],"NodeNames":["n"]}', "$.Pod"),
        (b'{"Pod":{"metadata":{"uid":"u"}}}', "neither Nodes nor NodeNames"),
        (b'{"Pod":{},"Nodes":7}', "$.Nodes"),
        (b'{"Pod":{},"Nodes":{"items":{}}}', "$.Nodes.items"),
        (b'{"Pod":{},"NodeNames":"n"}', "NodeNames"),
        (b'{"Pod":{},"NodeNames":["n"]}', "Pod.metadata"),
        (b'{"Pod":{"metadata":[]},"NodeNames":["n"]}', "Pod.metadata"),
        (b'{"Pod":{"metadata":{}},"NodeNames":["n"]}', "Pod.metadata.uid"),
        (b'{"Pod":{"metadata":{"uid":7}},"NodeNames":["n"]}', "Pod.metadata.uid"),
        (b'{"Pod":{"metadata":{"uid":"u"}},"NodeNames":["n"]}', "Pod.spec.containers"),
        (b'{"Pod":{"metadata":{"uid":"u"},"spec":{"containers":[7]}},"NodeNames":["n"]}', "Pod.spec.containers[0]"),
        (b'{"Pod":{"metadata":{"uid":"\xff"}},"NodeNames":["n"]}', "utf-8"),
    ],
)
@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_malformed(site: Site, verb: str, body: bytes, words: str) -> None:
    """The error of an invalid request names the field; the next call succeeds."""
    if verb == "prioritize":
        body = body.replace(b'["n"]', b'["n","m"]')
    reply = site.caller.send(f"/{verb}", body)
    assert reply.status == 400
    assert words.lower() in reply.text.lower()
    assert reply.text.endswith("\n")
    assert site.caller.filter(site.pod(), ["node-z"]).status == 200


@pytest.mark.parametrize("depth", [500, 5000, 1_000_000])
@pytest.mark.parametrize(
    "template",
    [
        '{"Pod":{"metadata":{"uid":"u"},"spec":{"containers":[%s]}},"NodeNames":["n","m"]}',
        '{"Pod":{"metadata":{"uid":"u","labels":%s},"spec":{"containers":[]}},"NodeNames":["n",7]}',
        '{"Pod":{"metadata":{"uid":"u"},"spec":{"containers":7}},"Nodes":{"items":[%s]}}',
        '{"Pod":{"metadata":{"uid":"u"},"spec":{"containers":7}},"NodeNames":["n","m"],"More":%s}',
    ],
)
@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind"])
def test_nesting(site: Site, verb: str, opening: str, template: str, depth: int) -> None:
    """JSON nested to any depth is an invalid request with a cause, and the next call succeeds.

    Python 3.14 limits nesting by the stack of the thread, earlier versions by a number of calls.
    """
    nested = opening * depth + "0" + ("]" if opening == "[" else "}") * depth
    reply = site.caller.send(f"/{verb}", (template % nested).encode())
    assert reply.status == 400
    assert "nested too deeply" in reply.text or depth < 1_000_000
    assert site.caller.filter(site.pod(), ["node-z"]).status == 200


def test_escaped_names(site: Site) -> None:
    """JSON may escape any character of a name."""
    body = json.dumps(site.arguments()).replace("node-aa", "nod\\u0065-aa").replace('"node-', '"\\u006eode-')
    assert site.caller.send("/filter", body.encode()).selected_node in NODES


def test_a_bad_quantity(site: Site) -> None:
    """The error of an invalid quantity of a pod names its field."""
    reply = site.caller.filter(site.pod(spec={"containers": [_guaranteed("many")]}), NODES)
    assert reply.status == 400
    assert "Pod.spec.containers[0].resources.requests" in reply.text
    assert "'many'" in reply.text


@pytest.mark.parametrize("names", [["node-a", 7], [None], [["node-a"]]])
def test_a_list_with_other_values_than_names(site: Site, names: list[object]) -> None:
    """An entry that is no name is invalid. No node fits this pod, so the extender reads the whole list."""
    reply = site.caller.call("filter", site.arguments(Pod=_impossible(site), NodeNames=names))
    assert reply.status == 400
    assert "NodeNames" in reply.text


def test_nodes_without_names(site: Site) -> None:
    """Whole nodes need names as well."""
    reply = site.caller.call("filter", site.arguments(NodeNames=None, Nodes={"items": [node_object("n"), {}]}))
    assert reply.status == 400
    assert "Nodes.items[1]" in reply.text


def _impossible(site: Site) -> dict[str, Any]:
    return site.pod(spec={"containers": [_guaranteed("501")]})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/filter", 405), ("GET", "/prioritize", 405), ("GET", "/bind", 405), ("HEAD", "/filter", 405),
        ("GET", "/", 404), ("POST", "/", 404), ("GET", "/preempt", 405), ("POST", "/filter/", 404),
        ("PUT", "/filter", 501), ("GET", "/metrics", 404),
    ],
)  # fmt: skip
def test_paths_and_methods(site: Site, method: str, path: str, status: int) -> None:
    """Each path accepts only its methods, and other paths do not exist; metrics are on another port."""
    caller = Caller(site.extender)
    assert caller.send(path, b"{}" if method in ("POST", "PUT") else None, method).status == status
    caller.close()


def test_a_query_is_no_part_of_the_path(site: Site) -> None:
    """A query in the URL has no effect."""
    assert site.caller.send("/filter?timeout=5s", json.dumps(site.arguments()).encode()).status == 200


# --- on the wire


def exchange(site: Site, request: bytes, *, end: bool = False) -> bytes:
    """Send bytes, and return all bytes until the peer closes the connection."""
    with socket.create_connection(("127.0.0.1", site.extender.ports[0]), timeout=PATIENCE) as connection:
        connection.sendall(request)
        if end:
            connection.shutdown(socket.SHUT_WR)
        parts: list[bytes] = []
        with contextlib.suppress(ConnectionResetError):  # the peer closes it without having read our bytes
            while part := connection.recv(65536):
                parts.append(part)
        return b"".join(parts)


def head(*lines: str) -> bytes:
    return "\r\n".join(["POST /filter HTTP/1.1", "Host: x", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (head("Content-Length: 99999999999"), 413),
        (head(f"Content-Length: {'9' * 5000}"), 413),
        (head(), 411),
        (head("Content-Length: -1"), 411),
        (head("Content-Length: some"), 411),
        (head("Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n", 411),
        (head("Transfer-Encoding: chunked", "Content-Length: 2") + b"{}", 411),
    ],
)
def test_bodies_with_unusable_lengths(site: Site, request_bytes: bytes, status: int) -> None:
    """A body without a length, in chunks, or above the limit is rejected unread, and the connection is closed."""
    answer = exchange(site, request_bytes)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert answer.count(b"HTTP/1.1") == 1


def test_a_body_that_is_cut_short(site: Site) -> None:
    """A truncated body gets an error response."""
    answer = exchange(site, head("Content-Length: 100") + b'{"Pod":', end=True)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the body ends after 7 of 100 bytes" in answer


@pytest.mark.parametrize("noise", [b"\x16\x03\x01\x02\x00", b"\r\n\r\n", b"GET\r\n\r\n", b"\x00" * 100])
def test_noise(site: Site, noise: bytes) -> None:
    """Bytes that are not HTTP have no effect on the next call."""
    exchange(site, noise, end=True)
    assert site.caller.filter(site.pod(), NODES).status == 200


# --- binding


def test_bind_fails(site: Site) -> None:
    """The field that kube-scheduler reads contains the error of the API server."""
    arguments = {"PodName": "unknown", "PodNamespace": "lab", "PodUID": "u", "Node": "node-a"}
    assert "not found" in site.caller.call("bind", arguments).json["Error"]
    assert site.caller.call("bind", {"PodName": "unknown"}).status == 400


# --- metrics


def test_metrics(site: Site) -> None:
    """Calls are counted by verb and status, with their durations."""
    name = 'zonewise_extender_requests_total{code="%s",verb="filter"}'
    before = [site.extender.metric(name % status) for status in (200, 400)]
    site.caller.filter(site.pod(), NODES)
    site.caller.send("/filter", b"")
    assert [site.extender.metric(name % status) for status in (200, 400)] == [count + 1 for count in before]
    assert site.extender.metric('zonewise_nodes{state="reported"}') == len(NODES)
    assert site.extender.metric('zonewise_extender_request_duration_seconds_count{verb="filter"}') > 0
    page = site.extender.get("/metrics")[1]
    assert "zonewise_settings_info{hash=" in page
    # an installation in between, from a later commit, changes the part after the release
    [version] = re.findall(r'^zonewise_build_info\{version="(.+)"\} 1\.0$', page, re.MULTILINE)
    assert version.partition(".dev")[0] == __version__.partition(".dev")[0]


def test_metrics_of_rejections_and_zones(site: Site) -> None:
    """A rejected pod is counted by reason and resource. The free resources of a single zone limit the next pod."""
    largest = site.extender.metric('zonewise_largest_zone_free{resource="cpu"}')
    assert 0 < site.extender.metric('zonewise_largest_zone_free_ratio{resource="cpu"}') <= 1
    name = 'zonewise_extender_rejections_total{reason="TopologyAffinityError",resource="cpu"}'
    before = site.extender.metric(name)
    pod = site.pod()
    [container] = pod["spec"]["containers"]
    for amounts in container["resources"].values():
        amounts["cpu"] = str(int(largest) + 1)
    assert site.caller.filter(pod, NODES).json["NodeNames"] == []
    assert site.extender.metric(name) == before + 1


def test_outcomes_are_disjoint(site: Site) -> None:
    """An assumed pod has at most one outcome, so the sum over outcomes is at most the number of assumptions."""
    _, before = site.extender.get("/metrics")
    site.caller.filter(site.pod(), NODES)
    _, after = site.extender.get("/metrics")
    assert _total(after, "zonewise_assumptions_total") == _total(before, "zonewise_assumptions_total") + 1
    for name in ("zonewise_assumed_pods_total", "zonewise_promises_total"):
        assert _total(after, name) <= _total(after, "zonewise_assumptions_total")


def _total(page: str, name: str) -> float:
    samples = (line.rpartition(" ") for line in page.splitlines() if line.partition("{")[0].split(" ")[0] == name)
    return sum(float(value) for _, _, value in samples)


def test_deprecated_metrics(site: Site) -> None:
    """Each renamed metric is also exported under its old name, with the same value and the new name in its HELP."""
    site.caller.filter(site.pod(), NODES)
    _, page = site.extender.get("/metrics")
    values = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("zonewise_"))
    for old, new in {
        'zonewise_promises_total{outcome="withdrawn"}': 'zonewise_assumed_pods_total{outcome="forgotten"}',
        "zonewise_pods_in_flight": "zonewise_pods_assumed",
        "zonewise_pods_woken_total": "zonewise_pods_requeued_total",
    }.items():
        assert values[old] == values[new]
    decisions, results = "zonewise_extender_decisions_total", "zonewise_extender_filter_results_total"
    assert values[decisions + '{outcome="placed"}'] == values[results + '{result="assumed"}']
    for old, new in {
        "zonewise_promises_total": "zonewise_assumed_pods",
        "zonewise_prediction_misses_total": "zonewise_mispredictions",
        "zonewise_kubelet_refusals_total": "zonewise_kubelet_rejections",
    }.items():
        assert f"# HELP {old} Deprecated, removed in the next minor version: use {new}." in page
