"""A dumper of YAML whose texts kubectl reads as texts.

Go resolves more of them to other values than PyYAML does: 1e-4, 08, 0o14, y (go-yaml v2, resolve.go).
"""

from __future__ import annotations

import re
from typing import Any

_BOOLEAN = re.compile(r"[yYnN]$")
_INTEGER = r"0_*(?:[xX][0-9a-fA-F_]+|[oO][-+]?[0-7_]+|[bB][-+]?[01_]+)"
_DECIMAL = r"(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE]_*[-+]?[0-9_]+)?"
_NUMBER = re.compile(rf"[-+]?_*(?:{_INTEGER}|{_DECIMAL})$")
"""Go leaves out each underscore before it parses a number."""


def kubectl_dumper(base: type[Any]) -> type[Any]:
    """Return a dumper of PyYAML that is as its base, and quotes what Go would resolve."""
    dumper: Any = type("KubectlDumper", (base,), {})
    dumper.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOLEAN, list("yYnN"))
    dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
    return dumper
