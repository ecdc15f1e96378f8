"""The machine as node labels: those of Node Feature Discovery, of GPU Feature Discovery, and our own for topology.

A label whose fact is unknown is absent. Labels are few and of few values: what has many values (an address, a serial
number, a distance) belongs in the NodeResourceTopology object.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.report.labels_gpu import gpu_labels
from zonewise.report.labels_nfd import nfd_labels
from zonewise.report.labels_zonewise import zonewise_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.machine import Machine

MAX_LENGTH = 63
"""Characters of a label's value, and of its name behind the prefix (apimachinery, IsValidLabelValue)."""

_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[a-z0-9.-]{1,253}/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_EDGES = "-_."


def machine_to_labels(machine: Machine) -> dict[str, str]:
    """Return the labels by name, sorted; each is valid for Kubernetes."""
    return dict(sorted(_valid({**nfd_labels(machine), **gpu_labels(machine), **zonewise_labels(machine)})))


def render_labels(labels: dict[str, str]) -> str:
    """Return labels as lines of name=value, the form of NFD's feature files and of `kubectl label`."""
    return "".join(f"{name}={value}\n" for name, value in labels.items())


def label_value(text: str) -> str:
    """Return text as a valid value of a label: other characters become "_", and it is cut to 63."""
    return re.sub(r"[^-A-Za-z0-9_.]+", "_", text).strip(_EDGES)[:MAX_LENGTH].rstrip(_EDGES)


def _valid(labels: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in labels.items():
        value = text if _VALUE.fullmatch(text) else label_value(text)
        if _NAME.fullmatch(name) and (value or not text):
            yield name, value
