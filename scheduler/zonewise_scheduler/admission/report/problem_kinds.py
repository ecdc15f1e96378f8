"""Kinds of problems of a report: a small set, by the field that a problem begins with."""

from __future__ import annotations

import re

from zonewise_common.nrt import names

OTHER = "other"
_ATTRIBUTE_NAMES = {
    value: value.rpartition("/")[2]
    for name, value in sorted(vars(names).items())
    if name.isupper() and isinstance(value, str)
}
_FIELDS = ("resources", "costs", "attributes", "name")
"""Of a zone."""
KINDS = frozenset({"object", "metadata", "zones", OTHER, "topologyPolicies", *_FIELDS, *_ATTRIBUTE_NAMES.values()})

_INDEX = re.compile(r"\[\d+\]|\([^)]*\)")


def problem_kind(problem: str) -> str:
    """Return the kind of a problem: the attribute or the part of the object that is damaged, without its values."""
    field = _INDEX.sub("", problem.partition(": ")[0]).strip()
    for word in reversed(field.split()):
        if word in _ATTRIBUTE_NAMES:
            return _ATTRIBUTE_NAMES[word]
    first, _, rest = field.split(" ")[0].partition(".")
    zone_field = rest.partition(".")[0]
    if first == "zones" and zone_field in _FIELDS:
        return zone_field
    if first == "zone":  # "zone 3 cpu": an amount that contradicts others
        return "resources"
    return first if first in KINDS else OTHER
