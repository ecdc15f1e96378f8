"""Nodes as they are described, in a file or in a few characters.

    name: large
    levels:                                  # the outermost first; the last are the nodes
    - {name: block, count: 13}
    - {name: rack, count: 50, label: example.com/rack}
    - {name: node, count: 100}
    kinds:                                   # one after the other, in the order of the nodes
    - {name: gpu, share: 0.25, cpu: 192, memory: 2Ti, resources: {nvidia.com/gpu: 8}, zones: 2}
    - {name: cpu, cpu: 128, memory: 512Gi, labels: {a: b}, taints: [{key: a, value: b, effect: NoSchedule}]}

A kind has a `share` of the nodes or so many `domains` of the outermost level, and one without either what is left. Of
memory that is not told there is enough; a node has room for 110 pods, as the kubelet's default is. With `zones` its
resources are divided, and `policy` and `scope` are those of its Topology Manager.

In a few characters, nodes are NUMBER, of one processor each, or NUMBERxCPUS, or NUMBERxCPUSxMEMORY ("100x64x256Gi").
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
from zonewise_scheduler.simulator.inputs.errors import InputError
from zonewise_scheduler.simulator.inputs.fleet_levels import MAX_NODES, UNSPECIFIED, Level, NodeGroup, build_fleet
from zonewise_scheduler.simulator.inputs.node_zones import ZoneLayout, idle_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet

KIND_LABEL = "zonewise.dev/node-kind"
"""A label of nodes."""
LEVEL_LABEL_PREFIX = "zonewise.dev/topology-"
"""The beginning of the label of a level that names none; its name follows."""
DEFAULT_MAX_PODS = 110
"""The kubelet's default (maxPods, k8s.io/kubelet/config/v1beta1)."""

_NAME = "fleet"
_SHORT = re.compile(r"(\d{1,7})(?:x([^x]+)(?:x([^x]+))?)?", re.ASCII)
_MAX_ZONES = 8
"""max-allowable-numa-nodes: with more and a policy, a kubelet does not start."""

_Policy = Literal["none", "best-effort", "restricted", "single-numa-node"]
_Scope = Literal["container", "pod"]
_Extent = tuple[NodeGroup, "Fraction | int | None"]
"""A kind, and its share, or its number of domains of the outermost level; None: what is left."""


def is_fleet(content: Mapping[str, Any]) -> bool:
    """Tell whether an object describes nodes."""
    return "kinds" in content and "levels" in content


def read_fleet(content: Mapping[str, Any], where: str) -> Fleet:
    """Return the nodes that an object describes; raise InputError, naming file, field and value, where it cannot be."""
    problems: list[str] = []
    whole = FieldReader(content, "", problems)
    name = whole.text("name") or _NAME
    levels = _levels(whole)
    extents = [_kind(one) for one in whole.children("kinds")]
    whole.ignore("description")
    nodes = _count(levels)
    if not problems:
        problems += _contradictions(levels, extents, nodes)
    if problems:
        raise InputError(where, "; ".join(problems))
    whole.report_unknown()
    counts = _counts(extents, nodes, nodes // levels[0].size)
    return build_fleet(name, levels, counts)._replace(problems=tuple(f"{where}: {one}" for one in problems))


def parse_short_fleet(text: str, where: str = "--nodes") -> Fleet | None:
    """Return the nodes of a text of a few characters; None: it is none.

    Raises InputError, naming where it is from, for a wrong amount in it.
    """
    found = _SHORT.fullmatch(text)
    if found is None:
        return None
    count, cpus, memory = int(found[1]), found[2] or "1", found[3]
    try:
        room = Resource(
            parse_milli_value(cpus), UNSPECIFIED if memory is None else parse_value(memory), UNSPECIFIED, UNSPECIFIED
        )
    except ValueError as error:
        raise InputError(where, f"{error} in {text}") from error
    if not 0 < count <= MAX_NODES or min(room[:2]) <= 0:
        raise InputError(where, f"from 1 to {MAX_NODES} nodes, each with CPUs and memory: {text}")
    return build_fleet("nodes", [Level("node", count, HOSTNAME)], [(NodeGroup("nodes", room, {}), count)])


def _levels(whole: FieldReader) -> list[Level]:
    found: list[Level] = []
    for one in whole.children("levels"):
        one.report_missing("count")
        found.append(Level(one.required_name(), one.int_in_range("count", 1, MAX_NODES), one.text("label")))
        one.report_unknown()
    last = len(found) - 1
    return [
        level._replace(label=level.label or (HOSTNAME if place == last else LEVEL_LABEL_PREFIX + level.name))
        for place, level in enumerate(found)
    ]


def _kind(one: FieldReader) -> _Extent:
    one.report_missing("cpu")
    name = one.required_name()
    room = _room(one)
    policy: _Policy = "none"
    scope: _Scope = "container"
    zoning = ZoneLayout(
        one.int_in_range("zones", 0, _MAX_ZONES, 0),
        one.choice("policy", _Policy, policy),
        one.choice("scope", _Scope, scope),
    )
    state = idle_state(room, zoning) if zoning.zones else None
    taints = one.spec_field("taints", read_taints, ())
    make = NodeGroup(name, room, {KIND_LABEL: name}, one.pairs("labels"), taints, state)
    extent = Fraction(str(one.non_negative("share", 0))) if one.has("share") else None
    domains = one.int_in_range("domains", 1, MAX_NODES) if one.has("domains") else None
    one.report_unknown()
    return make, domains if extent is None else extent


def _room(one: FieldReader) -> Resource:
    others = one.amounts("resources", resource_value)
    for name in others:
        if not is_scalar_resource_name(name):
            one.report("resources", f"{name} is not counted so, but by a field of its own")
    memory, storage = one.quantity("memory", parse_value), one.quantity("storage", parse_value)
    return Resource(
        one.quantity("cpu", parse_milli_value) or 0,
        UNSPECIFIED if memory is None else memory,
        one.int_in_range("pods", DEFAULT_MAX_PODS, UNSPECIFIED),
        UNSPECIFIED if storage is None else storage,
        tuple(sorted((name, amount) for name, amount in others.items() if amount)),
    )


def _count(levels: Sequence[Level]) -> int:
    found = 1
    for level in levels:
        found *= level.size
    return found


def _contradictions(levels: Sequence[Level], extents: Sequence[_Extent], nodes: int) -> list[str]:
    """Return what is wrong with fields that are sound each on its own."""
    found: list[str] = []
    if not levels or not extents:
        return [f"{name}: there is none" for name, some in (("levels", levels), ("kinds", extents)) if not some]
    if nodes > MAX_NODES:
        found.append(f"levels: more than {MAX_NODES} nodes: {nodes}")
    labels = [level.label for level in levels]
    names = [make.name for make, _ in extents]
    for field, given in (("levels", labels), ("kinds", names)):
        found += [f"{field}: {one!r} is there twice" for one in sorted({one for one in given if given.count(one) > 1})]
    if labels[-1] != HOSTNAME:
        found.append(f"levels[{len(levels) - 1}].label: the innermost level is that of {HOSTNAME}: {labels[-1]!r}")
    open_ends = sum(extent is None for _, extent in extents)
    told = sum(_share(extent, levels[0].size) for _, extent in extents)
    if open_ends > 1:
        found.append("kinds: only one can have what is left, the others need `share` or `domains`")
    if told > 1 or (told < 1 and not open_ends):
        found.append(f"kinds: they have {float(told):g} of the nodes rather than all of them")
    return found


def _share(extent: Fraction | int | None, domains: int) -> Fraction:
    return Fraction(extent, domains) if isinstance(extent, int) else extent or Fraction(0)


def _counts(extents: Sequence[_Extent], nodes: int, of_domain: int) -> list[tuple[NodeGroup, int]]:
    """Return how many nodes each kind has; shares end at the node that is nearest."""
    left = 1 - sum(_share(extent, nodes // of_domain) for _, extent in extents)
    found: list[tuple[NodeGroup, int]] = []
    end, begin = Fraction(0), 0
    for make, extent in extents:
        end += left if extent is None else _share(extent, nodes // of_domain)
        found.append((make, round(end * nodes) - begin))
        begin = round(end * nodes)
    return found
