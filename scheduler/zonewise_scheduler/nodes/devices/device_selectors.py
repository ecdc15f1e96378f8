"""What the CEL expressions of a DeviceClass require of a device, as far as it can be read without evaluating CEL.

Only the operands of a chain of `&&` are read, in these forms; every other operand counts as true:

    device.driver == "gpu.example.com"
    device.attributes["gpu.example.com"].type == "gpu"      (a string, a whole number, true or false)

So a device that does not match fails the expression, and a device that matches may still fail it. Source:
k8s.io/dynamic-resource-allocation/cel/compile.go; structured/internal/incubating selectorsMatch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

AttributeValue = str | int | bool

_STRING = r"""(?:"[^"\\\n]*"|'[^'\\\n]*')"""
_LITERAL = re.compile(_STRING)
_UNREADABLE = re.compile(r"""\\|//|'''|\"{3}|\b[rRbB]+["']""")
"""Escapes, comments and other kinds of strings: an expression with one of them requires nothing."""
_DRIVER = re.compile(rf"device\.driver\s*==\s*({_STRING})")
_ATTRIBUTE = re.compile(
    rf"device\.attributes\[\s*({_STRING})\s*\](?:\.([A-Za-z_]\w*)|\[\s*({_STRING})\s*\])\s*==\s*({_STRING}|-?\d+|true|false)"
)
_TYPES: Mapping[type, str] = {str: "string", bool: "bool", int: "int"}
"""Fields of resource.k8s.io/v1 DeviceAttribute."""
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


class DeviceRequirement(NamedTuple):
    """A necessary condition on a device."""

    domain: str
    """The domain of the attribute; for the driver, ""."""
    attribute: str
    """The attribute without its domain; for the driver, ""."""
    value: AttributeValue

    def allows(self, driver: str, attributes: Mapping[str, Mapping[str, object]]) -> bool:
        """Return whether a device of a driver may satisfy the condition.

        `attributes`: values by name and type. A name without a domain has that of the driver, so an attribute may have
        two values, of which CEL takes any. A device without the attribute is never allocated.
        """
        if not self.attribute:
            return driver == self.value
        names = [f"{self.domain}/{self.attribute}", *([self.attribute] if driver == self.domain else [])]
        kind = _TYPES[type(self.value)]
        return any(attributes[name].get(kind, self.value) == self.value for name in names if name in attributes)


def device_requirements(expressions: Iterable[str]) -> tuple[DeviceRequirement, ...]:
    """Return what CEL expressions require of a device, all of which must hold; see the module."""
    return tuple(found for expression in expressions for found in _requirements(expression))


def _requirements(expression: str) -> Iterator[DeviceRequirement]:
    if _UNREADABLE.search(expression):
        return
    operands = _operands(expression)
    for operand in operands:
        if (driver := _DRIVER.fullmatch(operand)) is not None:
            yield DeviceRequirement("", "", driver[1][1:-1])
        elif (attribute := _ATTRIBUTE.fullmatch(operand)) is not None:
            domain, name, quoted, value = attribute.groups()
            yield DeviceRequirement(domain[1:-1], name or quoted[1:-1], _value(value))


def _operands(expression: str) -> list[str]:
    """Return the operands of the outermost chain of `&&`; [] if another operator is outermost, or brackets differ."""
    masked = _LITERAL.sub(lambda literal: "_" * len(literal[0]), expression)
    depth, begin, operands = 0, 0, list[str]()
    for i, character in enumerate(masked):
        depth += _BRACKETS.get(character, 0)
        if depth < 0 or (not depth and (character == "?" or masked.startswith("||", i))):
            return []
        if not depth and masked.startswith("&&", i):
            operands.append(expression[begin:i].strip())
            begin = i + 2
    return [] if depth else [*operands, expression[begin:].strip()]


def _value(literal: str) -> AttributeValue:
    if literal in {"true", "false"}:
        return literal == "true"
    return literal[1:-1] if literal[0] in "\"'" else int(literal)
