"""The structural schema of NodeResourceTopology v1alpha2, and a check of objects against such a schema.

The check yields problems that an API server would reject: a missing field, a wrong type, a mismatched pattern. It also
yields unknown fields, which a server would silently drop.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]

QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?\d+(\.\d*)?))?")
"""resource.Quantity, as controller-gen writes it into CRDs."""

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def fields(required: str, optional: str = "", **own: Schema) -> Schema:
    """Return the schema of an object with string fields and the given fields."""
    strings: dict[str, Schema] = {name: {"type": str} for name in (*required.split(), *optional.split())}
    return {"type": dict, "required": required.split(), "fields": strings | own}


def array_of(schema: Schema) -> Schema:
    return {"type": list, "items": schema}


_ATTRIBUTES = array_of(fields("name value"))
_QUANTITY: Schema = {"type": (str, int), "pattern": QUANTITY}
_RESOURCE = fields(
    "name capacity allocatable available", capacity=_QUANTITY, allocatable=_QUANTITY, available=_QUANTITY
)
_ZONE = fields(
    "name type",
    "parent",
    costs=array_of(fields("name value", value={"type": int})),
    attributes=_ATTRIBUTES,
    resources=array_of(_RESOURCE),
)

NODE_RESOURCE_TOPOLOGY = fields(
    "apiVersion kind metadata zones",
    metadata=fields("name"),
    topologyPolicies=array_of({"type": str}),
    attributes=_ATTRIBUTES,
    zones=array_of(_ZONE),
)


def refusals(value: Any, schema: Schema, place: str = "object") -> Iterator[str]:
    """Yield an API server's reasons for rejecting a value."""
    if not isinstance(value, schema["type"]) or isinstance(value, bool):
        yield f"{place} is {type(value).__name__}"
        return
    if (pattern := schema.get("pattern")) and not pattern.fullmatch(str(value)):
        yield f"{place} does not fit: {value!r}"
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place}.{name} is missing"
    if "fields" in schema:
        for name, part in value.items():
            if name in schema["fields"]:
                yield from refusals(part, schema["fields"][name], f"{place}.{name}")
            else:
                yield f"{place}.{name} is no field"
    for number, part in enumerate(value if "items" in schema else ()):
        yield from refusals(part, schema["items"], f"{place}[{number}]")
