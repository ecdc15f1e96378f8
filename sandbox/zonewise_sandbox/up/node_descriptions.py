"""Descriptions of nodes: by number and kind, by size, from a file, or from captures of machines.

| text | nodes |
|---|---|
| 4xhgx-h100, hgx-h100 | 4, or 1, of a kind by name |
| 1000 | 1000 of the default kind |
| 8x64, 8x64x256Gi | 8 with 64 CPUs in one zone, with this memory |
| 4xnode.tar.zst, node.tar.zst | 4, or 1, as a machine captured by `zonewise capture` |
| FILE, DIRECTORY | those of a fleet file, or of Node and NodeResourceTopology objects (zonewise simulate --nodes) |

Commas separate several descriptions.
"""

from __future__ import annotations

import os
import re
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.files import RootError
from zonewise_common.k8s.quantity import parse_value
from zonewise_sandbox.up.machines import SimulatedMachine, machine_of_capture, machine_of_kind
from zonewise_sandbox.up.node_kinds import DEFAULT_KIND, DEFAULT_POLICY, NODE_KINDS, NodeKind
from zonewise_scheduler.nodes.filters.info_table import MAX_AMOUNT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.nodes.node.node_info import NodeInfo
    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet

MAX_NODES = 5000
"""The largest cluster that Kubernetes supports."""
RACK_LABEL = "zonewise.dev/topology-rack"
NODES_PER_RACK = 4
HOSTNAME = "kubernetes.io/hostname"

_COUNTED = re.compile(r"(\d{1,7})x(.+)", re.ASCII)
_SIZE = re.compile(r"(\d{1,5})(?:x([^x]+))?", re.ASCII)
_DOCUMENTS = (".yaml", ".yml", ".json")
_GIB_PER_CPU = 4
"""Memory of nodes whose description sets none."""


class NodesError(ValueError):
    """A description that cannot be used; the message contains it."""


class NodeDescription(NamedTuple):
    """A node."""

    name: str
    machine: SimulatedMachine
    labels: Mapping[str, str]
    """Labels in addition to those that the agent sets."""


class NodeSet(NamedTuple):
    """The nodes of a cluster."""

    nodes: tuple[NodeDescription, ...]
    levels: tuple[str, ...]
    """Labels of its topology levels, the outermost first; the last is HOSTNAME."""


class _Group(NamedTuple):
    machine: SimulatedMachine
    size: int


def parse_nodes(text: str, policy: str = DEFAULT_POLICY) -> NodeSet:
    """Return the nodes of a description; `policy` is their topologyManagerPolicy unless a file sets another.

    Raises NodesError.
    """
    if _is_file_of_objects(text):
        node_set = _nodes_of_file(text)
    else:
        groups = [_group(part.strip(), policy) for part in text.split(",")]
        node_set = NodeSet(tuple(_numbered(groups)), (RACK_LABEL, HOSTNAME))
    if not 0 < len(node_set.nodes) <= MAX_NODES:
        raise NodesError(f"--nodes {text}: {len(node_set.nodes)} nodes are outside 1 to {MAX_NODES}")
    return node_set


def _group(part: str, policy: str) -> _Group:
    """Return the nodes of one part of a description."""
    if part.isascii() and part.isdecimal():
        return _Group(machine_of_kind(NODE_KINDS[DEFAULT_KIND]._replace(policy=policy)), _number(part, part))
    counted = _COUNTED.fullmatch(part)
    number, name = (_number(counted[1], part), counted[2]) if counted else (1, part)
    if name in NODE_KINDS:
        return _Group(machine_of_kind(NODE_KINDS[name]._replace(policy=policy)), number)
    if os.path.exists(name):
        return _Group(_captured(name, policy), number)
    size = _SIZE.fullmatch(name) if counted else None
    if size is not None:
        return _Group(machine_of_kind(_kind_of_size(size, part)._replace(policy=policy)), number)
    raise NodesError(
        f"--nodes {part or repr(part)}: {name!r} is neither a kind nor a file: use {', '.join(NODE_KINDS)}, NUMBER, "
        "NUMBERxCPUS, NUMBERxCPUSxMEMORY (8x64x256Gi), a capture, or a file of nodes"
    )


def _number(text: str, part: str) -> int:
    number = int(text[:8])
    if not 0 < number <= MAX_NODES:
        raise NodesError(f"--nodes {part}: {text} nodes are outside 1 to {MAX_NODES}")
    return number


def _kind_of_size(size: re.Match[str], part: str) -> NodeKind:
    cpus = int(size[1])
    try:
        memory = parse_value(size[2]) if size[2] else cpus * _GIB_PER_CPU << 30
    except ValueError as error:
        raise NodesError(f"--nodes {part}: memory: {error}") from error
    if cpus < 2 or memory <= 1 << 30:
        raise NodesError(
            f"--nodes {part}: a node needs at least 2 CPUs and more than 1 GiB, because its kubelet reserves one CPU"
        )
    return NodeKind(f"cpu-{cpus}", "", 1, cpus, 1, memory)


def _captured(path: str, policy: str) -> SimulatedMachine:
    name = re.sub(r"[^a-z0-9]+", "-", os.path.basename(path.rstrip("/")).partition(".")[0].lower()).strip("-")
    try:
        return machine_of_capture(path, name or "capture", policy)
    except (RootError, ValueError) as error:
        raise NodesError(f"--nodes {path}: {error}") from error


def _numbered(groups: list[_Group]) -> Iterator[NodeDescription]:
    """Yield the nodes with their names.

    Numbers continue across groups of the same kind, and racks contain neighbours of one group.
    """
    numbers: dict[str, Iterator[int]] = {}
    rack = 0
    for machine, number in groups:
        serial = numbers.setdefault(machine.kind, count())
        for i in range(number):
            rack += i > 0 and i % NODES_PER_RACK == 0
            name = f"{machine.kind}-{next(serial)}"
            yield NodeDescription(name, machine, {RACK_LABEL: f"rack-{rack}", HOSTNAME: name})
        rack += 1


# --- files


def _is_file_of_objects(text: str) -> bool:
    if os.path.isdir(text):
        return any(name.endswith(_DOCUMENTS) for name in os.listdir(text))
    return text.endswith(_DOCUMENTS) and os.path.exists(text)


def _nodes_of_file(path: str) -> NodeSet:
    # the simulator's inputs are needed only for files
    from zonewise_scheduler.simulator.inputs.loader import load_fleet
    from zonewise_scheduler.simulator.inputs.source_files import InputError

    try:
        fleet = load_fleet(path)
    except InputError as error:
        raise NodesError(str(error)) from error
    machines: dict[NodeKind, SimulatedMachine] = {}
    nodes: list[NodeDescription] = []
    for info in fleet.nodes.infos[: MAX_NODES + 1]:
        if info is None:
            continue
        kind = _kind_of_node(info, fleet)
        if kind not in machines:
            machines[kind] = machine_of_kind(kind)
        labels = {**dict(zip(info.labels.keys, info.labels.values, strict=True)), HOSTNAME: info.name}
        nodes.append(NodeDescription(info.name, machines[kind], labels))
    levels = next(iter(fleet.topologies.values()), (HOSTNAME,))
    return NodeSet(tuple(nodes), levels if levels[-1] == HOSTNAME else (*levels, HOSTNAME))


def _kind_of_node(info: NodeInfo, fleet: Fleet) -> NodeKind:
    """Return the kind of a node from a file: its resources are divided evenly among its zones."""
    state = fleet.states.get(info.name)
    zones = len(state.kind.zones) if state is not None else 1
    cpus, memory = info.allocatable.milli_cpus // 1000, info.allocatable.memory
    is_known = memory < MAX_AMOUNT
    memory = memory if is_known else cpus * _GIB_PER_CPU << 30
    if cpus < 2 * zones or memory <= zones << 30:
        raise NodesError(f"Node {info.name}: a zone needs at least 2 CPUs and more than 1 GiB")
    devices = {
        resource: tuple(amount // zones + (zone < amount % zones) for zone in range(zones))
        for resource, amount in info.allocatable.scalar_resources
        if "/" in resource and amount
    }
    policies = state.kind.policies if state is not None else None
    policy, scope = (policies.topology, policies.scope) if policies else ("none", "container")
    return NodeKind(
        f"cpu-{cpus}", "", zones, cpus // zones, 1, memory // zones, _FrozenDevices(devices), policy=policy, scope=scope
    )


class _FrozenDevices(dict[str, tuple[int, ...]]):
    """Devices of a kind, in a hashable dict."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self.items())))
