"""A YAML dumper that quotes every string which kubectl would read as another type.

Go resolves more texts to other types than PyYAML does: 1e-4, 08, 0o14, y (go-yaml v2, resolve.go).
"""

from __future__ import annotations

import re
from typing import Any

_BOOLEAN = re.compile(r"[yYnN]$")
_INTEGER = r"0_*(?:[xX][0-9a-fA-F_]+|[oO][-+]?[0-7_]+|[bB][-+]?[01_]+)"
_DECIMAL = r"(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE]_*[-+]?[0-9_]+)?"
_NUMBER = re.compile(rf"[-+]?_*(?:{_INTEGER}|{_DECIMAL})$")
"""Go removes all underscores before it parses a number."""


def kubectl_dumper(base: type[Any]) -> type[Any]:
    """Return a subclass of a PyYAML dumper that also quotes strings which Go would resolve to other types."""
    dumper: Any = type("KubectlDumper", (base,), {})
    dumper.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOLEAN, list("yYnN"))
    dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
    return dumper
