"""The smallest JSON patch between two documents."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zonewise.publish.json_patch import json_patch

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab~/", max_size=3)
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/0", max_size=2), inner, max_size=3),
    max_leaves=12,
)


def applied(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Apply add, remove and replace operations of RFC 6902."""
    holder: Any = [copy.deepcopy(document)]
    for operation in operations:
        steps = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")]
        parent, last = holder, "0"
        for step in steps[1:]:
            parent, last = parent[key(parent, last)], step
        known = key(parent, last) in (parent if type(parent) is dict else range(len(parent)))
        assert known is (operation["op"] != "add")
        if operation["op"] == "remove":
            del parent[key(parent, last)]
        else:
            parent[key(parent, last)] = operation["value"]
    return holder[0]


def key(container: Any, step: str) -> Any:
    return int(step) if type(container) is list else step


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_produces_the_other_document(before: Any, after: Any) -> None:
    """Applied to the first document, the patch produces the second, including the type of each value."""
    result = applied(before, json_patch(before, after))
    assert json.dumps(result, sort_keys=True) == json.dumps(after, sort_keys=True)  # the text distinguishes 1 from true


@given(DOCUMENTS)
def test_nothing_for_equal_documents(document: Any) -> None:
    """Equal documents need no operation."""
    assert json_patch(document, copy.deepcopy(document)) == []


def test_one_value_is_one_operation() -> None:
    """A change deep inside the document does not touch the values beside it."""
    before: dict[str, Any] = {"zones": [{"name": "node-0", "resources": [{"available": "3"}, {"available": "9"}]}]}
    after = copy.deepcopy(before)
    after["zones"][0]["resources"][1]["available"] = "8"
    assert json_patch(before, after) == [{"op": "replace", "path": "/zones/0/resources/1/available", "value": "8"}]
