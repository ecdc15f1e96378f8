"""Fleets: descriptions of nodes in a file or in a short text.

    name: large
    levels:                                  # the outermost first; the last are the nodes
    - {name: block, count: 13}
    - {name: rack, count: 50, label: example.com/rack}
    - {name: node, count: 100}
    kinds:                                   # one after the other, in the order of the nodes
    - {name: gpu, share: 0.25, cpu: 192, memory: 2Ti, resources: {nvidia.com/gpu: 8}, zones: 2}
    - {name: cpu, cpu: 128, memory: 512Gi, labels: {a: b}, taints: [{key: a, value: b, effect: NoSchedule}]}

A kind has a `share` of the nodes or a number of `domains` of the outermost level. One kind may have neither; it gets
the remaining nodes. Memory does not count if no amount is given. A node admits 110 pods, the kubelet's default. `zones`
divides its resources; `policy` and `scope` are those of its Topology Manager.

A short text is NUMBER (nodes with one processor each), NUMBERxCPUS or NUMBERxCPUSxMEMORY ("100x64x256Gi").
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.quantity import parse_milli_value, parse_value
from zonewise_common.k8s.taints import read_taints
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.resource_names import is_scalar_resource_name
from zonewise_scheduler.quota.api.amount import resource_value
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.simulator.inputs.fleet_levels import MAX_NODES, UNSPECIFIED, Level, NodeGroup, build_fleet
from zonewise_scheduler.simulator.inputs.node_zones import ZoneLayout, idle_state
from zonewise_scheduler.simulator.inputs.source_files import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet

KIND_LABEL = "zonewise.dev/node-kind"
"""Label of nodes with the name of their kind."""
LEVEL_LABEL_PREFIX = "zonewise.dev/topology-"
"""Prefix of the default label of a level, before the level's name."""
DEFAULT_MAX_PODS = 110
"""The kubelet's default (maxPods, k8s.io/kubelet/config/v1beta1)."""

_NAME = "fleet"
_SHORT = re.compile(r"(\d{1,7})(?:x([^x]+)(?:x([^x]+))?)?", re.ASCII)
_FORMS = "NUMBERxCPUS or NUMBERxCPUSxMEMORY (100x64x256Gi)"
_MAX_ZONES = 8
"""max-allowable-numa-nodes: with more zones and a policy, the kubelet does not start."""

_Policy = Literal["none", "best-effort", "restricted", "single-numa-node"]
_Scope = Literal["container", "pod"]
_Extent = tuple[NodeGroup, "Fraction | int | None"]
"""A kind with its share or its number of domains of the outermost level; None for the remaining nodes."""


def is_fleet(content: Mapping[str, Any]) -> bool:
    """Return whether an object describes nodes."""
    return "kinds" in content and "levels" in content


def is_short_fleet(text: str) -> bool:
    """Return whether a text is a short description of nodes, also if a file has this name."""
    return _SHORT.fullmatch(text) is not None


def read_fleet(content: Mapping[str, Any], where: str) -> Fleet:
    """Return the nodes of a description. Raises InputError with file, field and value if it is invalid."""
    problems: list[str] = []
    reader = FieldReader(content, "", problems)
    name = reader.text("name") or _NAME
    levels = _levels(reader)
    extents = [_kind(child) for child in reader.children("kinds")]
    reader.ignore("description")
    nodes = _node_number(levels)
    if not problems:
        problems += _inconsistencies(levels, extents, nodes)
    if problems:
        raise InputError(where, "; ".join(problems))
    reader.report_unknown()
    counts = _group_sizes(extents, nodes, nodes // levels[0].size)
    return build_fleet(name, levels, counts)._replace(problems=tuple(f"{where}: {child}" for child in problems))


def parse_short_fleet(text: str, where: str = "--nodes") -> Fleet | None:
    """Return the nodes of a short description; None if the text is not one.

    Raises InputError with its source for an invalid amount.
    """
    match = _SHORT.fullmatch(text)
    if match is None:
        return None
    count, cpus, memory = int(match[1]), match[2] or "1", match[3]
    try:
        allocatable = Resource(
            parse_milli_value(cpus), UNSPECIFIED if memory is None else parse_value(memory), UNSPECIFIED, UNSPECIFIED
        )
    except ValueError as error:
        raise InputError(where, f"{error} in {text}: use {_FORMS}, or a file for other kinds of nodes") from error
    if not 0 < count <= MAX_NODES or min(allocatable[:2]) <= 0:
        raise InputError(where, f"must describe 1 to {MAX_NODES} nodes, each with CPUs and memory: {text}")
    return build_fleet("nodes", [Level("node", count, HOSTNAME)], [(NodeGroup("nodes", allocatable, {}), count)])


def _levels(reader: FieldReader) -> list[Level]:
    levels: list[Level] = []
    for child in reader.children("levels"):
        child.report_missing("count")
        levels.append(Level(child.required_name(), child.int_in_range("count", 1, MAX_NODES), child.text("label")))
        child.report_unknown()
    last = len(levels) - 1
    return [
        level._replace(label=level.label or (HOSTNAME if index == last else LEVEL_LABEL_PREFIX + level.name))
        for index, level in enumerate(levels)
    ]


def _kind(reader: FieldReader) -> _Extent:
    reader.report_missing("cpu")
    name = reader.required_name()
    allocatable = _allocatable(reader)
    policy: _Policy = "none"
    scope: _Scope = "container"
    layout = ZoneLayout(
        reader.int_in_range("zones", 0, _MAX_ZONES, 0),
        reader.choice("policy", _Policy, policy),
        reader.choice("scope", _Scope, scope),
    )
    state = idle_state(allocatable, layout) if layout.zones else None
    taints = reader.spec_field("taints", read_taints, ())
    group = NodeGroup(name, allocatable, {KIND_LABEL: name}, reader.pairs("labels"), taints, state)
    extent = Fraction(str(reader.non_negative("share", 0))) if reader.has("share") else None
    domains = reader.int_in_range("domains", 1, MAX_NODES) if reader.has("domains") else None
    reader.report_unknown()
    return group, domains if extent is None else extent


def _allocatable(reader: FieldReader) -> Resource:
    extended_resources = reader.amounts("resources", resource_value)
    for name in extended_resources:
        if not is_scalar_resource_name(name):
            reader.report("resources", f"{name} is set with a field of its own, not here")
    memory, storage = reader.quantity("memory", parse_value), reader.quantity("storage", parse_value)
    return Resource(
        reader.quantity("cpu", parse_milli_value) or 0,
        UNSPECIFIED if memory is None else memory,
        reader.int_in_range("pods", DEFAULT_MAX_PODS, UNSPECIFIED),
        UNSPECIFIED if storage is None else storage,
        tuple(sorted((name, amount) for name, amount in extended_resources.items() if amount)),
    )


def _node_number(levels: Sequence[Level]) -> int:
    number = 1
    for level in levels:
        number *= level.size
    return number


def _inconsistencies(levels: Sequence[Level], extents: Sequence[_Extent], nodes: int) -> list[str]:
    """Return the conflicts between fields that are valid individually."""
    problems: list[str] = []
    if not levels or not extents:
        return [f"{name}: is missing" for name, items in (("levels", levels), ("kinds", extents)) if not items]
    if nodes > MAX_NODES:
        problems.append(f"levels: more than {MAX_NODES} nodes: {nodes}")
    labels = [level.label for level in levels]
    names = [make.name for make, _ in extents]
    for field, values in (("levels", labels), ("kinds", names)):
        problems += [
            f"{field}: {value!r} occurs twice"
            for value in sorted({value for value in values if values.count(value) > 1})
        ]
    if labels[-1] != HOSTNAME:
        problems.append(f"levels[{len(levels) - 1}].label: the innermost level is that of {HOSTNAME}: {labels[-1]!r}")
    without_extent = sum(extent is None for _, extent in extents)
    total = sum(_share(extent, levels[0].size) for _, extent in extents)
    if without_extent > 1:
        problems.append("kinds: only one kind can take the remaining nodes; the others need `share` or `domains`")
    if total > 1 or (total < 1 and not without_extent):
        problems.append(f"kinds: they cover {float(total):g} of the nodes instead of all of them")
    return problems


def _share(extent: Fraction | int | None, domains: int) -> Fraction:
    return Fraction(extent, domains) if isinstance(extent, int) else extent or Fraction(0)


def _group_sizes(extents: Sequence[_Extent], nodes: int, of_domain: int) -> list[tuple[NodeGroup, int]]:
    """Return the number of nodes of each kind; shares are rounded to the nearest node."""
    remainder = 1 - sum(_share(extent, nodes // of_domain) for _, extent in extents)
    counts: list[tuple[NodeGroup, int]] = []
    end, begin = Fraction(0), 0
    for group, extent in extents:
        end += remainder if extent is None else _share(extent, nodes // of_domain)
        counts.append((group, round(end * nodes) - begin))
        begin = round(end * nodes)
    return counts
