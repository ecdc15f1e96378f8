"""The machine as node labels: those of Node Feature Discovery, of the GPU vendors' labellers, and zonewise's own.

The label of an unknown fact is absent. Labels are few and have few values. A fact with many values (an address, a
serial number, a distance) belongs in the NodeResourceTopology object.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from zonewise.gfd.types import NO_DEVICE_PLUGIN_CONFIG
from zonewise.nfd.feature_file import first_problems
from zonewise.nfd.types import NO_LOCAL_FEATURES
from zonewise.nfd.worker_config import CUSTOM, DEFAULT_WORKER_CONFIG, LOCAL
from zonewise.objects.amd_labels import amd_labels
from zonewise.objects.features import node_features
from zonewise.objects.gfd_labels import gfd_labels
from zonewise.objects.nfd_labels import PREFIX as NFD
from zonewise.objects.nfd_labels import nfd_labels
from zonewise.objects.zonewise_labels import zonewise_labels
from zonewise.rules.validation import is_label_value, label_name_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise.gfd.types import DevicePluginConfig
    from zonewise.machine.model.machine import Machine
    from zonewise.nfd.types import LocalFeatures, LocalLabel
    from zonewise.nfd.worker_config import WorkerConfig
    from zonewise.objects.features import Features

T = TypeVar("T")

MAX_LENGTH = 63
"""Maximum characters of a label's value, and of its name after the prefix (apimachinery, IsValidLabelValue)."""

_EDGES = "-_."


class LabelConfig(NamedTuple):
    """The decisions about labels from the configurations of NFD and of NVIDIA's device plugin."""

    device_plugin: DevicePluginConfig | None = NO_DEVICE_PLUGIN_CONFIG
    """How GPUs are shared and split; if None, it is unknown, and GFD's labels are left out."""
    worker: WorkerConfig | None = DEFAULT_WORKER_CONFIG
    """Configuration of NFD's worker; if None, it is unknown, and nothing is published."""
    node_name: str = ""
    """Name of the node, for rules about the feature system.name."""
    problems: tuple[str, ...] = ()
    """Problems with the files; each is a sentence that begins with the file."""


DEFAULT_LABEL_CONFIG = LabelConfig()


class Labels(NamedTuple):
    """Labels that Kubernetes accepts."""

    values: dict[str, str]
    """Values by name, sorted."""
    problems: tuple[str, ...] = ()
    """Problems with other labels, and how they were resolved; each is a sentence."""


def machine_to_labels(
    machine: Machine, local: LocalFeatures = NO_LOCAL_FEATURES, config: LabelConfig = DEFAULT_LABEL_CONFIG
) -> dict[str, str]:
    """Return the labels of a machine and of feature files by name, sorted; all are valid in Kubernetes."""
    features = node_features(machine, (), local, config.worker or DEFAULT_WORKER_CONFIG)
    return build_labels(machine, features, local, config).values


def build_labels(
    machine: Machine,
    features: Features,
    local: LocalFeatures = NO_LOCAL_FEATURES,
    config: LabelConfig = DEFAULT_LABEL_CONFIG,
) -> Labels:
    """Return the labels of a machine with known raw features, and those of feature files.

    Labels from files override those of the hardware, as the priority of NFD's local source does.
    """
    worker = config.worker or DEFAULT_WORKER_CONFIG
    custom, failures = _custom_labels(machine, local, worker, config.node_name)
    discovered = validate_labels(
        {
            **_accepted({**nfd_labels(features, worker), **custom}, worker),
            **({} if config.device_plugin is None else gfd_labels(machine, config.device_plugin)),
            **amd_labels(machine),
            **zonewise_labels(machine),
        }
    )
    local = local if LOCAL in worker.feature_sources & worker.label_sources else NO_LOCAL_FEATURES
    from_files = _validate_local_labels(_accepted(local.labels, worker))
    values = dict(sorted({**discovered.values, **from_files.values}.items()))
    return Labels(values, (*config.problems, *failures, *discovered.problems, *local.problems, *from_files.problems))


def validate_labels(labels: Mapping[str, str]) -> Labels:
    """Return the labels that may be set, and the problems with the others.

    A value that Kubernetes would reject is sanitized; NFD's labels with such values are dropped, as NFD does.
    """
    valid: dict[str, str] = {}
    problems: list[str] = []
    for name, text in sorted(labels.items()):
        if wrong := label_name_error(name):
            problems.append(f"label {name[:300]!r} is left out: {wrong}")
        elif is_label_value(text):
            valid[name] = text
        elif (value := sanitized_label_value(text)) and not name.startswith(f"{NFD}/"):
            valid[name] = value
            problems.append(f"label {name}: {text[:100]!r} is not a valid label value, {value!r} is used")
        else:
            problems.append(f"label {name} is left out: {text[:100]!r} is not a valid label value")
    return Labels(valid, tuple(problems))


def _custom_labels(
    machine: Machine, local: LocalFeatures, worker: WorkerConfig, node_name: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    if not worker.custom_rules or CUSTOM not in worker.label_sources:
        return {}, ()
    from zonewise.objects.custom_labels import custom_labels

    return custom_labels(machine, local, worker, node_name)


def _accepted(labels: Mapping[str, T], worker: WorkerConfig) -> Mapping[str, T]:
    """Return the labels whose names after the prefix match the worker's white list (nfd-worker.go,
    GetFeatureLabels).
    """
    if not worker.label_white_list:
        return labels
    from zonewise.rules.regexps import compile_regexp, encoded

    search = compile_regexp(worker.label_white_list).search
    return {name: label for name, label in labels.items() if search(encoded(name.partition("/")[2] or name))}


def _validate_local_labels(labels: Mapping[str, LocalLabel]) -> Labels:
    """Return the valid labels of feature files; the others are dropped, whatever their namespace.

    A name without a prefix gets NFD's prefix (pkg/nfd-master/nfd-master.go, addNs).
    """
    valid: dict[str, str] = {}
    problems: dict[str, list[str]] = defaultdict(list)
    for name, label in labels.items():
        full = name if "/" in name else f"{NFD}/{name}"
        if reason := _local_label_error(full, name, label.value):
            problems[label.origin.rpartition(":")[0]].append(f"{label.origin}: {reason}")
        else:
            valid[full] = label.value
    effect = "labels are left out"
    return Labels(valid, tuple(one for file, some in problems.items() for one in first_problems(some, file, effect)))


def _local_label_error(full: str, name: str, value: str) -> str:
    if wrong := label_name_error(full):
        return f"label {name[:300]!r} is left out: {wrong}"
    return "" if is_label_value(value) else f"label {name} is left out: {value[:100]!r} is not a valid label value"


def is_allowed_label(name: str) -> bool:
    """Return whether a label's name is valid and its namespace is open to such labels."""
    return not label_name_error(name)


def render_labels(labels: dict[str, str]) -> str:
    """Return labels as lines of name=value, the format of NFD's feature files and of `kubectl label`."""
    return "".join(f"{name}={value}\n" for name, value in labels.items())


def sanitized_label_value(text: str) -> str:
    """Return text as a valid label value: invalid characters become "_", and the text is cut to 63 characters."""
    return re.sub(r"[^-A-Za-z0-9_.]+", "_", text).strip(_EDGES)[:MAX_LENGTH].rstrip(_EDGES)
