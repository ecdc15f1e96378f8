"""Admission gates: other controllers hold a job until each of them has removed its name from an annotation (KEP-6915).

Source: pkg/workload/workload.go HasAdmissionGate; pkg/util/webhook/validation_admissiongatedby.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise_common.k8s.labels import is_subdomain

if TYPE_CHECKING:
    from collections.abc import Mapping

ADMISSION_GATES_ANNOTATION = "kueue.x-k8s.io/admission-gated-by"
"""Annotation with the names of the gates, separated by commas."""

_MAX_GATE_LENGTH = 63
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", re.ASCII)
"""The characters of a path in a URL (apimachinery pkg/util/validation/validation.go httpPathFmt)."""


def read_admission_gates(annotations: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of the gates; an annotation that is not empty always holds the job."""
    text = str(annotations.get(ADMISSION_GATES_ANNOTATION) or "")
    return tuple(name.strip() for name in text.split(",")) if text else ()


def is_admission_gate(name: str) -> bool:
    """Return whether a name is valid: a domain and a path, such as "example.com/budget"."""
    domain, slash, path = name.partition("/")
    return bool(slash) and len(name) <= _MAX_GATE_LENGTH and is_subdomain(domain) and _PATH.fullmatch(path) is not None
