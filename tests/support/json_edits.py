"""JSON objects with one field changed, and random JSON values."""

from __future__ import annotations

import copy
from typing import Any, cast

from hypothesis import strategies as st

Json = dict[str, Any]

JSON_VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


def with_field(obj: Json, path: str, value: Any) -> Json:
    """Return a copy with one field set, or deleted if the value is None."""
    changed = copy.deepcopy(obj)
    owner: Any = changed
    *parents, field = path.split(".")
    for name in parents:
        owner = owner[int(name) if name.isdecimal() else name]
    if value is None:
        del owner[field]
    else:
        owner[field] = value
    return changed


def without_absent_fields(value: Any) -> Any:
    """Return a value without null and empty fields, as the API server stores most objects; lists are unchanged."""
    if not isinstance(value, dict):
        return value
    fields = {name: without_absent_fields(field) for name, field in cast("Json", value).items()}
    return {name: field for name, field in fields.items() if field not in (None, {}, [])}
