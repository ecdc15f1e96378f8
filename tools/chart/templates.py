"""Writes compared renderings as Helm templates."""

from __future__ import annotations

import json
import re

import yaml

from tools.chart.guards import (
    Condition,
    Field,
    Guarded,
    Items,
    Json,
    Literal,
    Mapping,
    Node,
    Scalar,
    Template,
    evaluate,
)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, since people read them."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text and not re.search(r"[ \t]\n|\t", text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)  # pyright: ignore[reportUnknownMemberType]


_Dumper.add_representer(str, _represent_text)


def camel_case(name: str) -> str:
    """Return the name of a component as a key of the values: "labels-by-nfd" becomes labelsByNfd."""
    first, *words = name.split("-")
    return first + "".join(word.capitalize() for word in words)


def write_template(part: str, objects: list[Guarded]) -> str:
    """Return the template of a part, with all of its objects. A namespace is present even if the part is disabled."""
    namespaces = [item for item in objects if _is_namespace(item)]
    others = [item for item in objects if not _is_namespace(item)]
    documents = [_guarded(part, item.condition, _document(part, item)) for item in others]
    return "".join(_namespace(part, item) for item in namespaces) + _guarded(part, None, "".join(documents))


def _document(part: str, item: Guarded) -> str:
    return "---\n" + _mapping(part, item.node, 0)


def _is_namespace(item: Guarded) -> bool:
    return evaluate(item.node, frozenset())["kind"] == "Namespace"


def _namespace(part: str, item: Guarded) -> str:
    """Return a namespace, unless the release is in it: Helm needs the release's namespace before the chart's."""
    name = json.dumps(evaluate(item.node, frozenset())["metadata"]["name"])
    return f"{{{{- if ne .Release.Namespace {name} }}}}\n{_document(part, item)}{{{{- end }}}}\n"


def _guarded(part: str, condition: Condition | None, text: str) -> str:
    if condition == Condition():
        return text
    expression = f".Values.{part}.enabled" if condition is None else _expression(part, condition)
    return f"{{{{- if {expression} }}}}\n{text}{{{{- end }}}}\n"


def _expression(part: str, condition: Condition) -> str:
    clauses = [_clause(part, clause) for clause in condition.clauses]
    return _without_parentheses(clauses[0]) if len(clauses) == 1 else f"and {' '.join(clauses)}"


def _clause(part: str, clause: tuple[Literal, ...]) -> str:
    literals = [f".Values.{part}.components.{camel_case(literal.component)}" for literal in clause]
    terms = [text if literal.chosen else f"(not {text})" for text, literal in zip(literals, clause, strict=True)]
    return terms[0] if len(terms) == 1 else f"(or {' '.join(terms)})"


def _without_parentheses(text: str) -> str:
    return text[1:-1] if text.startswith("(") else text


def _mapping(part: str, node: Node, indent: int) -> str:
    assert isinstance(node, Mapping)  # noqa: S101 -- for the type checker
    return "".join(_field(part, field, indent) for field in node.fields)


def _field(part: str, field: Field, indent: int) -> str:
    return "".join(
        _guarded(part, value.condition, _value(part, f"{' ' * indent}{_scalar(field.key)}:", value.node, indent))
        for value in field.values
    )


def _value(part: str, head: str, node: Node, indent: int) -> str:
    """Return a value, to follow its key or list dash; `indent` is the column of these."""
    if not _is_conditional(node):
        return _plain(head, evaluate(node, frozenset()), indent)
    match node:
        case Scalar(value=Template(text=text)):
            return f"{head} {text.replace('@INDENT@', str(indent + 2))}\n"
        case Mapping():
            return f"{head}\n{_mapping(part, node, indent + 2)}"
        case Items(items=items):
            if all(item.condition != Condition() for item in items):
                raise ValueError(f"{part}: every item of {head.strip()} has a condition")
            dash = " " * (indent + 2) + "-"
            return f"{head}\n" + "".join(
                _guarded(part, item.condition, _value(part, dash, item.node, indent + 2)) for item in items
            )
        case _:
            raise AssertionError(node)


def _plain(head: str, value: Json, indent: int) -> str:
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
    if isinstance(value, dict | list) and value:
        body = "".join(f"{' ' * (indent + 2)}{line}\n" if line else "\n" for line in text.splitlines())
        return _literal(f"{head}\n{body}")
    text = text.removesuffix("...\n").rstrip("\n")
    first, *others = text.splitlines()
    body = "".join(f"\n{' ' * indent}{line}" if line else "\n" for line in others)
    return _literal(f"{head} {first}{body}\n")


def _scalar(text: str) -> str:
    return yaml.safe_dump(text, width=10_000).removesuffix("\n").removesuffix("\n...")


def _literal(text: str) -> str:
    """Return a text escaped for Helm: alerts and dashboards contain templates of their own."""
    return text.replace("{{", '{{ "{{" }}')


def _is_conditional(node: Node) -> bool:
    match node:
        case Scalar(value=value):
            return isinstance(value, Template)
        case Items(items=items):
            return any(item.condition != Condition() or _is_conditional(item.node) for item in items)
        case Mapping(fields=fields):
            return any(
                value.condition != Condition() or _is_conditional(value.node)
                for field in fields
                for value in field.values
            )
