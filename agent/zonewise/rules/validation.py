"""The outputs that rules may set on a Node, by the rules of NFD's pkg/apis/nfd/validate/validate.go.

| output | namespaces | other conditions |
|---|---|---|
| label | all but *.kubernetes.io; of those feature. and profile.node.kubernetes.io | a valid label value |
| annotation | the same without profile.node.kubernetes.io | at most 1024 bytes |
| extended resource | as annotations | a quantity that is a non-negative whole number |
| taint | as annotations | one of three effects |

An API server rejects a whole write for one invalid part, so more is checked here than in NFD. An extended
resource must be a non-negative whole number, and key and value of a taint must be valid.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise_common.k8s.quantity import parse_milli_value

if TYPE_CHECKING:
    from zonewise.rules.types import Taint

FEATURE_NAMESPACE = "feature.node.kubernetes.io"
"""The namespace of names that have none (FeatureLabelNs)."""
MAX_ANNOTATION = 1024
"""Maximum bytes of an annotation's value (FeatureAnnotationValueSizeLimit)."""
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_RESERVED = "kubernetes.io"
_PROFILE_NAMESPACE = "profile.node.kubernetes.io"
_PART = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(_PART)
_VALUE = re.compile(f"(?:{_PART})?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_MAX_PREFIX = 253
_NO_VALUE = (
    "not a valid label value: it must have at most 63 letters, digits, -, _ and ., and begin and end with a letter or "
    "digit"
)


def full_name(name: str) -> str:
    """Return a name with its namespace: the default namespace if it has none."""
    return name if "/" in name else f"{FEATURE_NAMESPACE}/{name}"


def is_label_value(text: str) -> bool:
    """Return whether Kubernetes accepts a text as a label value."""
    return _VALUE.fullmatch(text) is not None


def label_name_error(name: str) -> str:
    """Return why a label may not have a name; empty if the name is valid and in a namespace open to such labels."""
    return _name_error(name, (FEATURE_NAMESPACE, _PROFILE_NAMESPACE))


def label_error(name: str, value: str, *, is_open: bool = False) -> str:
    """Return why a label may not be set; empty if it may. `is_open`: its namespace does not count as reserved."""
    if error := _name_error(name, (_RESERVED,)) if is_open else label_name_error(name):
        return error
    return "" if is_label_value(value) else f"{value[:100]!r} is {_NO_VALUE}"


def annotation_error(name: str, value: str) -> str:
    """Return why an annotation may not be set; empty if it may."""
    if error := _name_error(name):
        return error
    too_long = len(value.encode("utf-8", "replace")) > MAX_ANNOTATION
    return f"its value has more than {MAX_ANNOTATION} bytes" if too_long else ""


def extended_resource_error(name: str, value: str) -> str:
    """Return why an extended resource may not be set; empty if it may."""
    if error := _name_error(name):
        return error
    try:
        quantity = parse_milli_value(value)
    except ValueError:
        return f"{value[:100]!r} is not a quantity"
    return f"{value[:100]!r} is not a non-negative whole number" if quantity < 0 or quantity % 1000 else ""


def taint_error(taint: Taint) -> str:
    """Return why a taint may not be set; empty if it may."""
    if error := _name_error(taint.key):
        return error
    if taint.effect not in TAINT_EFFECTS:
        return f"its effect {taint.effect[:100]!r} is not one of {', '.join(TAINT_EFFECTS)}"
    return "" if is_label_value(taint.value) else f"{taint.value[:100]!r} is {_NO_VALUE}"


def _name_error(name: str, excepted: tuple[str, ...] = (FEATURE_NAMESPACE,)) -> str:
    namespace, slash, base = name.partition("/")
    if not slash or not _NAME.fullmatch(base) or not _PREFIX.fullmatch(namespace) or len(namespace) > _MAX_PREFIX:
        return "not a qualified name with a prefix"
    if _is_within(namespace, _RESERVED) and not any(_is_within(namespace, domain) for domain in excepted):
        return f"the namespace {namespace} is reserved"
    return ""


def _is_within(namespace: str, domain: str) -> bool:
    return namespace == domain or namespace.endswith(f".{domain}")
