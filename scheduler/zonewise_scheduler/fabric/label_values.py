"""Names of switches as label values."""

from __future__ import annotations

import hashlib
import re

from zonewise_common.k8s.labels import is_label_value

MAX_LABEL = 63
_DIGITS = 8


def label_value(name: str) -> str:
    """Return a name as a label value (util/validation IsValidLabelValue).

    A valid name stays as it is. In any other one, "-" replaces invalid characters, the text is cut, and a digest of the
    name is appended. So different names remain different.
    """
    if name and is_label_value(name):
        return name
    text = re.sub("[^-A-Za-z0-9_.]+", "-", name)[: MAX_LABEL - _DIGITS - 1].strip("-_.")
    return f"{text}-{digest(name)}" if text else digest(name)


def digest(text: str) -> str:
    """Return 8 hexadecimal digits that identify a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
