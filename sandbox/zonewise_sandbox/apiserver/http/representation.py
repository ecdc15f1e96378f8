"""The representations of objects in responses: whole, only metadata, or the table that `kubectl get` prints.

Clients select one with the Accept header: application/json;as=Table;v=v1;g=meta.k8s.io.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.http.printers import NAMELESS, PRINTERS, age
from zonewise_sandbox.apiserver.kinds import Column, Kind
from zonewise_sandbox.apiserver.schemas.crds import json_path_value

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object, Value
    from zonewise_sandbox.apiserver.storage.listing import ListPage


_META = "meta.k8s.io/v1"
_WHOLE, _PARTIAL, _TABLE = "", "PartialObjectMetadata", "Table"
_NAME = Column("Name", "string", ".metadata.name")
_AGE = Column("Age", "date", ".metadata.creationTimestamp")
_BUILT_IN_COLUMNS = {
    "namespaces": (Column("Status", "string", ".status.phase"), _AGE),
    "leases": (Column("Holder", "string", ".spec.holderIdentity"), _AGE),
    "customresourcedefinitions": (Column("Created At", "date", ".metadata.creationTimestamp"),),
}


def requested_form(accept: str) -> str:
    """Return the first supported form of an Accept header: "", "Table" or "PartialObjectMetadata"."""
    for media_range in accept.split(","):
        parameters = (parameter.strip() for parameter in media_range.split(";")[1:])
        forms = (parameter[3:].removesuffix("List") for parameter in parameters if parameter.startswith("as="))
        form = next(forms, _WHOLE)
        if form in {_PARTIAL, _TABLE}:
            return form
        if not form:
            return _WHOLE
    return _WHOLE


def represent_object(
    kind: Kind, obj: Object, form: str, *, now: float, include: str = "", headers: bool = True
) -> Object:
    """Return an object in a form; `include` is the query's includeObject, `headers` is False for later events.

    `now`: the server's time, in seconds since 1970.
    """
    if form == _PARTIAL:
        return {"kind": _PARTIAL, "apiVersion": _META, "metadata": obj["metadata"]}
    if form == _TABLE:
        version = obj["metadata"].get("resourceVersion", "")
        return _table(kind, [obj], {"resourceVersion": version}, include, now, headers=headers)
    return obj


def represent_list(kind: Kind, page: ListPage, metadata: Object, form: str, include: str = "", *, now: float) -> Object:
    """Return a list in a form other than whole."""
    objects = [record.object for record in page.records]
    if form == _TABLE:
        return _table(kind, objects, metadata, include, now, headers=True)
    items = [represent_object(kind, obj, form, now=now) for obj in objects]
    return {"kind": f"{_PARTIAL}List", "apiVersion": _META, "metadata": metadata, "items": items}


def _table(kind: Kind, objects: list[Object], metadata: Object, include: str, now: float, *, headers: bool) -> Object:
    printer = PRINTERS.get(kind.resource)
    if printer is None:
        columns = (_NAME, *(kind.columns or _BUILT_IN_COLUMNS.get(kind.plural, (_AGE,))))
        cells = [[_cell(column, obj, now) for column in columns] for obj in objects]
    else:
        first = () if kind.resource in NAMELESS else (_NAME,)
        columns = (*first, *(Column(name, "string", "", priority) for name, priority in printer.columns))
        cells = [[*(_cell(column, obj, now) for column in first), *printer.cells(obj, now)] for obj in objects]
    rows = [{"cells": row, "object": _included(obj, include)} for row, obj in zip(cells, objects, strict=True)]
    return {
        "kind": _TABLE,
        "apiVersion": _META,
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns] if headers else None,
        "rows": rows,
    }


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        # ages are strings: the server computes them with its own clock
        "type": "string" if column.type == "date" else column.type,
        "format": "name" if column is _NAME else "",
        "description": "",
        "priority": column.priority,
    }


def _included(obj: Object, include: str) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return {"kind": _PARTIAL, "apiVersion": _META, "metadata": obj["metadata"]}


def _cell(column: Column, obj: Object, now: float) -> Value:
    value = json_path_value(obj, column.path)
    if column.type == "date":
        return age(value, now)
    if column.type == "string" and not isinstance(value, str):
        return "" if value is None else str(value)
    return value
