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

from zonewise.topology.quantity import parse_bytes, parse_milli
from zonewise_scheduler.fit.model.node import Room
from zonewise_scheduler.fit.model.resources import is_scalar
from zonewise_scheduler.fit.nodes.taints import read_taints
from zonewise_scheduler.queue.quota.model.amounts import request_amount
from zonewise_scheduler.queue.quota.read.part import Part
from zonewise_scheduler.queue.topology.model import HOSTNAME
from zonewise_scheduler.simulate.inputs.errors import InputError
from zonewise_scheduler.simulate.inputs.fields import in_spec, lacks, named, real, within
from zonewise_scheduler.simulate.inputs.nodes import MOST_NODES, UNTOLD, Level, Make, fleet_of
from zonewise_scheduler.simulate.inputs.zones import Zoning, idle_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.simulate.inputs.parts import Fleet

KIND = "zonewise.dev/node-kind"
"""A label of nodes."""
LEVEL = "zonewise.dev/topology-"
"""The beginning of the label of a level that names none; its name follows."""
PODS_OF_A_NODE = 110
"""The kubelet's default (maxPods, k8s.io/kubelet/config/v1beta1)."""

_NAME = "fleet"
_SHORT = re.compile(r"(\d{1,7})(?:x([^x]+)(?:x([^x]+))?)?", re.ASCII)
_MOST_ZONES = 8
"""max-allowable-numa-nodes: with more and a policy, a kubelet does not start."""

_Policy = Literal["none", "best-effort", "restricted", "single-numa-node"]
_Scope = Literal["container", "pod"]
_Extent = tuple[Make, "Fraction | int | None"]
"""A kind, and its share, or its number of domains of the outermost level; None: what is left."""


def is_fleet(given: Mapping[str, Any]) -> bool:
    """Tell whether an object describes nodes."""
    return "kinds" in given and "levels" in given


def read_fleet(given: Mapping[str, Any], where: str) -> Fleet:
    """Return the nodes that an object describes; raise InputError, naming file, field and value, where it cannot be."""
    problems: list[str] = []
    whole = Part(given, "", problems)
    name = whole.text("name") or _NAME
    levels = _levels(whole)
    extents = [_kind(one) for one in whole.parts("kinds")]
    whole.ignore("description")
    nodes = _count(levels)
    if not problems:
        problems += _contradictions(levels, extents, nodes)
    if problems:
        raise InputError(where, "; ".join(problems))
    whole.close()
    counts = _counts(extents, nodes, nodes // levels[0].size)
    return fleet_of(name, levels, counts)._replace(problems=tuple(f"{where}: {one}" for one in problems))


def short_fleet(text: str, where: str = "--nodes") -> Fleet | None:
    """Return the nodes of a text of a few characters; None: it is none.

    Raises InputError, naming where it is from, for a wrong amount in it.
    """
    found = _SHORT.fullmatch(text)
    if found is None:
        return None
    count, cpus, memory = int(found[1]), found[2] or "1", found[3]
    try:
        room = Room(parse_milli(cpus), UNTOLD if memory is None else parse_bytes(memory), UNTOLD, UNTOLD)
    except ValueError as error:
        raise InputError(where, f"{error} in {text}") from error
    if not 0 < count <= MOST_NODES or min(room[:2]) <= 0:
        raise InputError(where, f"from 1 to {MOST_NODES} nodes, each with CPUs and memory: {text}")
    return fleet_of("nodes", [Level("node", count, HOSTNAME)], [(Make("nodes", room, {}), count)])


def _levels(whole: Part) -> list[Level]:
    found: list[Level] = []
    for one in whole.parts("levels"):
        lacks(one, "count")
        found.append(Level(named(one), within(one, "count", 1, MOST_NODES), one.text("label")))
        one.close()
    last = len(found) - 1
    return [
        level._replace(label=level.label or (HOSTNAME if place == last else LEVEL + level.name))
        for place, level in enumerate(found)
    ]


def _kind(one: Part) -> _Extent:
    lacks(one, "cpu")
    name = named(one)
    room = _room(one)
    policy: _Policy = "none"
    scope: _Scope = "container"
    zoning = Zoning(
        within(one, "zones", 0, _MOST_ZONES, 0),
        one.one_of("policy", _Policy, policy),
        one.one_of("scope", _Scope, scope),
    )
    state = idle_state(room, zoning) if zoning.zones else None
    taints = in_spec(one, "taints", read_taints, ())
    make = Make(name, room, {KIND: name}, one.pairs("labels"), taints, state)
    extent = Fraction(str(real(one, "share", 0))) if one.has("share") else None
    domains = within(one, "domains", 1, MOST_NODES) if one.has("domains") else None
    one.close()
    return make, domains if extent is None else extent


def _room(one: Part) -> Room:
    others = one.amounts("resources", request_amount)
    for name in others:
        if not is_scalar(name):
            one.wrong("resources", f"{name} is not counted so, but by a field of its own")
    memory, storage = one.quantity("memory", parse_bytes), one.quantity("storage", parse_bytes)
    return Room(
        one.quantity("cpu", parse_milli) or 0,
        UNTOLD if memory is None else memory,
        within(one, "pods", PODS_OF_A_NODE, UNTOLD),
        UNTOLD if storage is None else storage,
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
    if nodes > MOST_NODES:
        found.append(f"levels: more than {MOST_NODES} nodes: {nodes}")
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


def _counts(extents: Sequence[_Extent], nodes: int, of_domain: int) -> list[tuple[Make, int]]:
    """Return how many nodes each kind has; shares end at the node that is nearest."""
    left = 1 - sum(_share(extent, nodes // of_domain) for _, extent in extents)
    found: list[tuple[Make, int]] = []
    end, begin = Fraction(0), 0
    for make, extent in extents:
        end += left if extent is None else _share(extent, nodes // of_domain)
        found.append((make, round(end * nodes) - begin))
        begin = round(end * nodes)
    return found
