"""YAML text of plain values, in their own order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.yaml_dumper import kubectl_dumper

if TYPE_CHECKING:
    from collections.abc import Mapping


def render_yaml(document: Mapping[str, Any]) -> str:
    """Return the document as YAML that ends in a newline; ASCII, one scalar a line."""
    import yaml

    # PyYAML's wheels have the dumper in C, some distributions' packages do not
    dumper = kubectl_dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper))
    return yaml.dump(dict(document), Dumper=dumper, sort_keys=False, width=1 << 16)
