"""Deeply nested JSON: only the deep values are lost, and only those of the objects that contain them."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from support.json_strategies import VALUES
from support.kube_faults import Exchange, as_dict, line, pod, pods
from support.reflectors import LISTED, B, C, copying
from support.waiting import eventually
from zonewise_common.kube.nested_json import MAX_DEPTH, decode_nested, without_deep_values

DEPTH = 5000
"""An API server accepts this depth, and decoders do not."""
_MARK = "@"


def nested(obj: Any) -> bytes:
    """Return JSON of an object with deep lists in place of its mark."""
    return line(obj).replace(f'"{_MARK}"'.encode(), b"[" * DEPTH + b"]" * DEPTH)


def limited(value: Any, most: int) -> Any:
    """Return the same as without_deep_values, by recursion."""
    if isinstance(value, dict | list) and not most:
        return None
    if isinstance(value, dict):
        return {name: limited(each, most - 1) for name, each in cast("dict[str, Any]", value).items()}
    return [limited(each, most - 1) for each in cast("list[Any]", value)] if isinstance(value, list) else value


@given(VALUES, st.integers(0, 3), st.sampled_from(["[", '"}', "\\", "\n"]))
def test_values_below_a_depth_are_null(value: Any, most: int, text: str) -> None:
    value = [text, value, {text: value}]
    assert json.loads(without_deep_values(json.dumps(value).encode(), most)) == limited(value, most)


def test_shallow_parts_of_a_deep_object_are_decoded() -> None:
    decoded = decode_nested(as_dict, nested({"a": 1, "deep": _MARK, "b": {"c": "]"}}))
    assert (decoded["a"], decoded["b"]) == (1, {"c": "]"})
    assert json.dumps(decoded["deep"]).count("[") == MAX_DEPTH - 1


def test_a_raw_object_is_decoded_in_the_same_way() -> None:
    assert decode_nested(as_dict, msgspec.Raw(nested({"a": 1, "deep": _MARK})))["a"] == 1


def test_a_deep_object_hides_no_other_object() -> None:
    """The watch of its kind would break at each of its changes, and no listing would succeed any more."""

    def watch(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(nested({"type": "ADDED", "object": {**B, "deep": _MARK}}))
        exchange.chunk(line({"type": "ADDED", "object": C}))
        exchange.stay_silent()

    with copying([watch]) as copy:
        eventually(lambda: copy.names == "abc")
        assert len(copy.server.lists) == 1

    listing = nested(pods(100, pod("a", 90), pod("b", 91, deep=_MARK)))
    with copying([], [lambda exchange: exchange.answer(200, listing), LISTED]) as copy:
        eventually(lambda: copy.names == "ab")
