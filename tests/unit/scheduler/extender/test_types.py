"""The extender protocol: read no further than need be, and nothing misread for that."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
def alike(draw: st.DrawFn) -> list[str]:
    """Names of which some begin, end or contain others."""
    some = draw(st.lists(NAMES, min_size=1, max_size=8))
    more = [f"{draw(LABELS)}{name}" for name in some] + [f"{name}{draw(LABELS)}" for name in some]
    more += [name[1:] for name in some if len(name) > 1] + [name[:-1] for name in some if len(name) > 1]
    return draw(st.permutations(list(dict.fromkeys([*some, *more]))))


def asked(**arguments: Any) -> CandidateNodes:
    """What is asked by JSON as kube-scheduler writes it."""
    body = json.dumps({"Pod": {}, "Nodes": None, "NodeNames": None} | arguments, separators=(",", ":"))
    return CandidateNodes(msgspec.json.decode(body.encode(), type=ExtenderArgs))


def nodes_of(names: list[str]) -> dict[str, Any]:
    return {"items": [{"metadata": {"name": name, "labels": {"a": "b"}}} for name in names]}


@given(alike(), st.data())
def test_membership(names: list[str], data: st.DataObject) -> None:
    """A node is in the request if and only if its name is, however many are asked about, and in both ways to send."""
    inside = data.draw(st.lists(st.sampled_from(names), unique=True))
    ways = [asked(NodeNames=inside), asked(Nodes=nodes_of(inside))]
    for name in names:
        assert [name in way for way in ways] == [name in inside] * 2
    assert [way.names for way in ways] == [inside] * 2


@given(st.lists(NAMES, unique=True), st.data())
def test_answers(names: list[str], data: st.DataObject) -> None:
    """What passes comes back in the way in which it was sent, in its order and whole; why others do not, by name."""
    passing = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    failed = {name: "no" for name in names if name not in passing}
    kept = [name for name in names if name in passing]
    of_names = written(asked(NodeNames=names).pass_nodes(kept, failed))
    of_nodes = written(asked(Nodes=nodes_of(names)).pass_nodes(kept, failed))
    assert (of_names["NodeNames"], of_names["Nodes"]) == (kept, None)
    assert (of_nodes["NodeNames"], of_nodes["Nodes"]) == (None, nodes_of(kept))
    assert of_names["FailedAndUnresolvableNodes"] == of_nodes["FailedAndUnresolvableNodes"] == failed
    assert written(asked(NodeNames=names).pass_all())["NodeNames"] == names
    assert written(asked(Nodes=nodes_of(names)).pass_all())["Nodes"] == nodes_of(names)


def written(result: ExtenderFilterResult) -> dict[str, Any]:
    return json.loads(msgspec.json.encode(result))


def test_nodes_come_back_byte_by_byte() -> None:
    """A node that passes is not written anew: no field, no order and no number of it changes."""
    node = b'{"metadata": {"name":"n", "z":1.50, "a":12345678901234567890123},"status":{}}'
    arguments = msgspec.json.decode(b'{"Pod":{},"Nodes":{"items":[' + node + b"]}}", type=ExtenderArgs)
    assert node in msgspec.json.encode(CandidateNodes(arguments).pass_nodes(["n"], {}))
    assert node in msgspec.json.encode(CandidateNodes(arguments).pass_all())


def test_fields_are_those_of_go() -> None:
    """The keys are the names of Go's fields, and Go's zero values are as Go writes them."""
    assert written(ExtenderFilterResult(error="e")) == {
        "Nodes": None, "NodeNames": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None, "Error": "e"
    }  # fmt: skip
    assert json.loads(msgspec.json.encode([HostPriority("n", 3)])) == [{"Host": "n", "Score": 3}]
    assert json.loads(msgspec.json.encode(ExtenderBindingResult())) == {"Error": ""}
    sent = b'{"PodName":"p","PodNamespace":"s","PodUID":"u","Node":"n"}'
    assert msgspec.json.decode(sent, type=ExtenderBindingArgs) == ExtenderBindingArgs("p", "s", "u", "n")


def test_no_nodes_in_any_way() -> None:
    """A request with neither Nodes nor NodeNames says so; one with an empty list of either asks about nothing."""
    with pytest.raises(RequestError, match="neither Nodes nor NodeNames"):
        asked()
    assert asked(NodeNames=[]).names == asked(Nodes={"items": None}).names == asked(Nodes={"items": []}).names == []


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
def test_what_is_no_list_of_names(arguments: dict[str, Any], field: str) -> None:
    """What cannot be read is an error that names the field."""
    with pytest.raises(RequestError, match=field):
        _ = asked(**arguments).names
