"""The extender protocol: lazily parsed candidates give the same results as parsed ones."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.extender.failed_nodes import FailedNodes
from zonewise_scheduler.extender.types import (
    CandidateNodes,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    HostPriority,
    RequestError,
)

LABELS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=4)
NAMES = st.lists(LABELS, min_size=1, max_size=3).map(".".join)


@st.composite
def similar_names(draw: st.DrawFn) -> list[str]:
    """Draw names of which some are prefixes, suffixes or substrings of others."""
    some = draw(st.lists(NAMES, min_size=1, max_size=8))
    more = [f"{draw(LABELS)}{name}" for name in some] + [f"{name}{draw(LABELS)}" for name in some]
    more += [name[1:] for name in some if len(name) > 1] + [name[:-1] for name in some if len(name) > 1]
    return draw(st.permutations(list(dict.fromkeys([*some, *more]))))


def candidates(**arguments: Any) -> CandidateNodes:
    """Return the candidates of a request whose JSON has kube-scheduler's format."""
    body = json.dumps({"Pod": {}, "Nodes": None, "NodeNames": None} | arguments, separators=(",", ":"))
    return CandidateNodes(msgspec.json.decode(body.encode(), type=ExtenderArgs))


def node_list(names: list[str]) -> dict[str, Any]:
    return {"items": [{"metadata": {"name": name, "labels": {"a": "b"}}} for name in names]}


@given(similar_names(), st.data())
def test_membership(names: list[str], data: st.DataObject) -> None:
    """A node is a candidate if and only if its name is in the request, in both forms and for any number of nodes."""
    included = data.draw(st.lists(st.sampled_from(names), unique=True))
    requests = [candidates(NodeNames=included), candidates(Nodes=node_list(included))]
    for name in names:
        assert [name in request for request in requests] == [name in included] * 2
    assert [request.names for request in requests] == [included] * 2


@given(similar_names(), st.data())
def test_membership_of_escaped_names(names: list[str], data: st.DataObject) -> None:
    """A node is also recognized if the JSON escapes characters of its name."""
    included = data.draw(st.lists(st.sampled_from(names), unique=True))
    characters = [[data.draw(st.sampled_from([c, f"\\u{ord(c):04x}"])) for c in name] for name in included]
    texts = [f'"{"".join(name)}"' for name in characters]
    arguments = ExtenderArgs({}, node_names=msgspec.Raw(f"[{','.join(texts)}]".encode()))
    request = CandidateNodes(arguments)
    for name in names:
        assert (name in request) is (name in included)


@given(st.lists(NAMES, unique=True), st.data())
def test_results(names: list[str], data: st.DataObject) -> None:
    """Passing nodes are returned in the form and order of the request, and failed nodes with their reasons."""
    passing = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    failed = {name: "no" for name in names if name not in passing}
    passing_names = [name for name in names if name in passing]
    by_names = encoded(candidates(NodeNames=names).pass_nodes(passing_names, FailedNodes(failed)))
    by_nodes = encoded(candidates(Nodes=node_list(names)).pass_nodes(passing_names, FailedNodes(failed)))
    assert (by_names["NodeNames"], by_names["Nodes"]) == (passing_names, None)
    assert (by_nodes["NodeNames"], by_nodes["Nodes"]) == (None, node_list(passing_names))
    assert by_names["FailedAndUnresolvableNodes"] == by_nodes["FailedAndUnresolvableNodes"] == failed
    assert encoded(candidates(NodeNames=names).pass_all())["NodeNames"] == names
    assert encoded(candidates(Nodes=node_list(names)).pass_all())["Nodes"] == node_list(names)


def encoded(result: ExtenderFilterResult) -> dict[str, Any]:
    return json.loads(msgspec.json.encode(result))


def test_nodes_are_returned_unchanged() -> None:
    """Passing nodes are not encoded again, so their fields, order and numbers do not change."""
    node = b'{"metadata": {"name":"n", "z":1.50, "a":12345678901234567890123},"status":{}}'
    arguments = msgspec.json.decode(b'{"Pod":{},"Nodes":{"items":[' + node + b"]}}", type=ExtenderArgs)
    assert node in msgspec.json.encode(CandidateNodes(arguments).pass_nodes(["n"], FailedNodes()))
    assert node in msgspec.json.encode(CandidateNodes(arguments).pass_all())


def test_fields_match_the_go_types() -> None:
    """The keys are Go's field names, and zero values are encoded as in Go."""
    assert encoded(ExtenderFilterResult(error="e")) == {
        "Nodes": None, "NodeNames": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None, "Error": "e"
    }  # fmt: skip
    assert json.loads(msgspec.json.encode([HostPriority("n", 3)])) == [{"Host": "n", "Score": 3}]
    assert json.loads(msgspec.json.encode(ExtenderBindingResult())) == {"Error": ""}
    sent = b'{"PodName":"p","PodNamespace":"s","PodUID":"u","Node":"n"}'
    assert msgspec.json.decode(sent, type=ExtenderBindingArgs) == ExtenderBindingArgs("p", "s", "u", "n")


def test_neither_nodes_nor_names() -> None:
    """A request with neither Nodes nor NodeNames is an error; an empty list of either means no candidates."""
    with pytest.raises(RequestError, match="neither Nodes nor NodeNames"):
        candidates()
    assert (
        candidates(NodeNames=[]).names
        == candidates(Nodes={"items": None}).names
        == candidates(Nodes={"items": []}).names
        == []
    )


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"NodeNames": {}}, "NodeNames"),
        ({"NodeNames": "n"}, "NodeNames"),
        ({"NodeNames": ["n", 1]}, "NodeNames.*1"),
        ({"Nodes": {"items": [{"metadata": {"name": "n"}}, {}]}}, r"Nodes.items\[1\].*metadata"),
        ({"Nodes": {"items": [{"metadata": {"name": 7}}]}}, r"Nodes.items\[0\].*name"),
    ],
)
def test_invalid_names(arguments: dict[str, Any], field: str) -> None:
    """An invalid list of names is an error that names the field."""
    with pytest.raises(RequestError, match=field):
        _ = candidates(**arguments).names
