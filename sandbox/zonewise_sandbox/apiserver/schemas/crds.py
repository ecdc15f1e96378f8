"""CustomResourceDefinitions: their validation, and the kinds that they define."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.json_values import is_list, is_object, list_in, object_in
from zonewise_sandbox.apiserver.kinds import DEFINITION, Column, Kind
from zonewise_sandbox.apiserver.status_errors import Cause, invalid, invalid_value, required

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_sandbox.apiserver.json_values import Object, Value


_CONVERTED = re.compile(r"\['(.*?)'\]|\[\"(.*?)\"\]")
_FILTER = re.compile(r"""\[\?\(@\.(\w+)\s*==\s*["']([^"']*)["']\)\]""")
_ANY: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def read_definitions(files: Iterable[str | Path]) -> Iterator[Object]:
    """Yield the CustomResourceDefinitions in YAML files; skip other documents."""
    import yaml

    # the loader in C is ten times faster, but some distributions' packages lack it
    loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in files:
        for document in yaml.load_all(Path(file).read_text(), loader):
            if is_object(document) and document.get("kind") == DEFINITION.kind:
                yield document


def check_definition(obj: Object) -> None:
    """Raise StatusError (422) if a definition cannot be served."""
    causes = list(_faults(obj))
    if causes:
        raise invalid(DEFINITION, obj["metadata"]["name"], causes)


def _faults(obj: Object) -> Iterator[Cause]:
    spec = object_in(obj, "spec")
    names, name = object_in(spec, "names"), obj["metadata"]["name"]
    for field in ("group", "versions", "scope"):
        if not spec.get(field):
            yield required(f"spec.{field}")
    if name != f"{names.get('plural', '')}.{spec.get('group', '')}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    for field in ("plural", "kind"):
        if not names.get(field):
            yield required(f"spec.names.{field}")
    stored = [version for version in list_in(spec, "versions") if version.get("storage")]
    if spec.get("versions") and len(stored) != 1:
        yield invalid_value("spec.versions", len(stored), "must have exactly one version marked as storage version")


def served_kinds(obj: Object) -> list[Kind]:
    """Return the kinds that a definition serves, one for each version, the stored version first."""
    spec = obj["spec"]
    served = [version for version in spec["versions"] if version.get("served")]
    served.sort(key=lambda version: not version.get("storage"))
    return [_kind(spec, version) for version in served]


def _kind(spec: Object, version: Object) -> Kind:
    names, subresources = spec["names"], object_in(version, "subresources")
    return Kind(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        status="status" in subresources,
        generation=True,
        short_names=tuple(list_in(names, "shortNames")),
        columns=tuple(map(_column, list_in(version, "additionalPrinterColumns"))),
        schema=object_in(version, "schema").get("openAPIV3Schema") or _ANY,
        custom=True,
        must_version=True,
    )


def _column(column: Object) -> Column:
    return Column(column["name"], column["type"], column["jsonPath"], column.get("priority", 0))


def established(obj: Object, now: str) -> Object:
    """Return the definition with the status that its controllers would set at time `now`."""
    spec = obj["spec"]
    conditions = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
    ]
    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    return {**obj, "status": {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored}}


def _condition(kind: str, reason: str, message: str, now: str) -> Object:
    return {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}


def json_path_value(obj: Object, path: str) -> Value:
    """Return the value at a simple JSON path, or None.

    Its steps are names, ['names'], [numbers], and filters of a list by one field: [?(@.type=="Ready")].
    """
    if (match := _FILTER.search(path)) is not None:
        items = json_path_value(obj, path[: match.start()])
        matching = [
            item for item in (items if is_list(items) else ()) if is_object(item) and item.get(match[1]) == match[2]
        ]
        return None if not matching else json_path_value(matching[0], path[match.end() :])
    value: Value = obj
    dotted = _CONVERTED.sub(lambda match: f".{(match[1] or match[2]).replace('.', chr(0))}", path)
    for part in dotted.replace("[", ".").replace("]", "").replace("\\.", "\0").strip(".").split("."):
        name = part.replace("\0", ".")
        if is_object(value):
            value = value.get(name)
        elif is_list(value) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value
