"""Structural schemas of custom resources: they prune unknown fields, set defaults, and validate the rest.

The rules are those of k8s.io/apiextensions-apiserver/pkg/apiserver/schema and .../validation. Expressions
(x-kubernetes-validations) are not evaluated, and date-time is the only format that is checked.
"""

from __future__ import annotations

import copy
import re
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.json_values import Object, Value, is_list, is_object, object_in
from zonewise_sandbox.apiserver.status_errors import Cause, duplicate, invalid_value, required, unsupported, wrong_type

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = Object

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def prune(value: Value, schema: Schema, unknown: list[str], path: str = "") -> Value:
    """Return the value without fields that the schema does not declare; append their paths to `unknown`."""
    if is_object(value):
        return _pruned_object(value, schema, unknown, path)
    if is_list(value):
        items = schema.get("items")
        if items is None:
            return value
        return [prune(item, items, unknown, f"{path}[{number}]") for number, item in enumerate(value)]
    return value


def _pruned_object(value: Object, schema: Schema, unknown: list[str], path: str) -> Object:
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    whole = not path or schema.get("x-kubernetes-embedded-resource", False)
    pruned: Object = {}
    for name, part in value.items():
        field = f"{path}.{name}" if path else name
        if whole and name in _OBJECT_FIELDS:
            pruned[name] = part
        elif name in properties:
            pruned[name] = prune(part, properties[name], unknown, field)
        elif is_object(additional):
            pruned[name] = prune(part, additional, unknown, field)
        elif additional is True or schema.get(_PRESERVE):
            pruned[name] = part
        else:
            unknown.append(field)
    return pruned


def set_defaults(value: Value, schema: Schema) -> Value:
    """Return the value with defaults for absent fields; null counts as absent unless the field is nullable."""
    if is_object(value):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        complete: Object = {}
        for name, part in value.items():
            part_schema = properties.get(name, additional if is_object(additional) else {})
            if part is None and name in properties and not part_schema.get("nullable"):
                continue
            complete[name] = set_defaults(part, part_schema)
        for name, part_schema in properties.items():
            if name not in complete and "default" in part_schema:
                complete[name] = set_defaults(copy.deepcopy(part_schema["default"]), part_schema)
        return complete
    if is_list(value):
        return [set_defaults(item, object_in(schema, "items")) for item in value]
    return value


def validate(value: Value, schema: Schema, path: str = "") -> Iterator[Cause]:
    """Yield errors for the invalid fields of a value."""
    if value is None and schema.get("nullable"):
        return
    actual = _type_name(value)
    expected = _schema_types(schema)
    if expected and actual not in expected and not (actual == "integer" and "number" in expected):
        yield wrong_type(path, actual, ",".join(expected))
        return
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported(path, value, schema["enum"])
    if is_object(value):
        yield from _validate_object(value, schema, path)
    elif is_list(value):
        yield from _validate_list(value, schema, path)
    elif isinstance(value, str):
        yield from _validate_text(value, schema, path)
    elif not isinstance(value, bool) and value is not None:
        yield from _validate_number(value, schema, path)
    yield from _validate_choices(value, schema, path)


def _schema_types(schema: Schema) -> tuple[str, ...]:
    if schema.get(_INT_OR_STRING):
        return ("integer", "string")
    return (schema["type"],) if "type" in schema else ()


def _type_name(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    names: dict[type, str] = {float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]


def _validate_object(value: Object, schema: Schema, path: str) -> Iterator[Cause]:
    prefix = f"{path}." if path else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield required(f"{prefix}{name}")
    if len(value) > schema.get("maxProperties", len(value)):
        yield _too_many(path, len(value), schema["maxProperties"], "properties")
    if len(value) < schema.get("minProperties", 0):
        limit = schema["minProperties"]
        yield invalid_value(path, len(value), f"{path} in body should have at least {limit} properties")
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    for name, part in value.items():
        if name in properties:
            yield from validate(part, properties[name], f"{prefix}{name}")
        elif is_object(additional):
            yield from validate(part, additional, f"{prefix}{name}")


def _validate_list(value: list[Value], schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) > schema.get("maxItems", len(value)):
        yield _too_many(path, len(value), schema["maxItems"], "items")
    if len(value) < schema.get("minItems", 0):
        limit = schema["minItems"]
        yield invalid_value(path, len(value), f"{path} in body should have at least {limit} items")
    items = schema.get("items")
    if is_object(items):
        for number, item in enumerate(value):
            yield from validate(item, items, f"{path}[{number}]")
    yield from _validate_keys(value, schema, path)


def _validate_keys(value: list[Value], schema: Schema, path: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-list-type", "atomic")
    if kind == "atomic":
        return
    known_keys: list[Value] = []
    for number, item in enumerate(value):
        key = item
        if kind == "map":
            if not is_object(item):
                continue
            keys = schema.get("x-kubernetes-list-map-keys", ())
            key = {name: item.get(name) for name in keys if name in item}
        if key in known_keys:
            yield duplicate(f"{path}[{number}]", key)
        known_keys.append(key)


def _validate_text(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) > schema.get("maxLength", len(value)):
        yield Cause("FieldValueTooLong", path, f"Too long: may not be more than {schema['maxLength']} bytes")
    if len(value) < schema.get("minLength", 0):
        limit = schema["minLength"]
        yield invalid_value(path, value, f"{path} in body should be at least {limit} chars long")
    if "pattern" in schema and not _pattern(schema["pattern"]).search(value):
        yield invalid_value(path, value, f"{path} in body should match '{schema['pattern']}'")
    if schema.get("format") == "date-time" and not _is_time(value):
        yield wrong_type(path, value, "date-time")


def _validate_number(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    if "minimum" in schema and value < schema["minimum"]:
        yield invalid_value(path, value, f"{path} in body should be greater than or equal to {schema['minimum']}")
    if "maximum" in schema and value > schema["maximum"]:
        yield invalid_value(path, value, f"{path} in body should be less than or equal to {schema['maximum']}")
    if "multipleOf" in schema and value % schema["multipleOf"]:
        yield invalid_value(path, value, f"{path} in body should be a multiple of {schema['multipleOf']}")


def _validate_choices(value: Value, schema: Schema, path: str) -> Iterator[Cause]:
    for choice in schema.get("allOf", ()):
        yield from validate(value, choice, path)
    for name, maximum, rule in (("anyOf", None, "at least one schema"), ("oneOf", 1, "one and only one schema")):
        choices = schema.get(name)
        if choices:
            fitting = sum(not any(validate(value, choice, path)) for choice in choices)
            if not fitting or (maximum is not None and fitting > maximum):
                yield invalid_value(path, "", f"{path} in body must validate {rule} ({name})")
    if "not" in schema and not any(validate(value, schema["not"], path)):
        yield invalid_value(path, "", f"{path} in body must not validate the schema (not)")


def _too_many(path: str, count: int, limit: int, what: str) -> Cause:
    return Cause("FieldValueTooMany", path, f"Too many: {count}: must have at most {limit} {what}")


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern; Go's $ matches only at the end of the text, Python's also before a final newline."""
    return re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", text))


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None and "T" in text
    except ValueError:
        return False
