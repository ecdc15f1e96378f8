"""The annotation with the levels of a job's slices (pkg/controller/jobframework/tas.go, tas_validation.go).

Like Go's encoding/json, the parser ignores unknown fields and the case of names. It accepts no fraction as a number.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from zonewise_common.k8s.labels import is_qualified_name

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.pod_set_manifest import Json

MAX_SLICE_LAYERS = 3
_MAX_SIZE = (1 << 31) - 1
"""Kueue's type of a size is int32."""


def parse_slice_layers(text: object) -> list[Json] | None:
    """Return the levels with their sizes, from the widest level on; None if the text is not valid."""
    try:
        layers: object = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(layers, list) or not 1 <= len(cast("list[object]", layers)) <= MAX_SLICE_LAYERS:
        return None
    parsed = [_parse_layer(layer) for layer in cast("list[object]", layers)]
    valid = [layer for layer in parsed if layer is not None]
    return valid if len(valid) == len(parsed) else None


def _parse_layer(layer: object) -> Json | None:
    if not isinstance(layer, dict):
        return None
    fields = {name.lower(): value for name, value in cast("Json", layer).items()}
    topology, size = fields.get("topology"), fields.get("size")
    if not (isinstance(topology, str) and is_qualified_name(topology)):
        return None
    return {"topology": topology, "size": size} if type(size) is int and 1 <= size <= _MAX_SIZE else None
