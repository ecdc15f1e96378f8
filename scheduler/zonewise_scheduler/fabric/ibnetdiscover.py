"""Reads the topology file of ibnetdiscover (rdma-core, infiniband-diags/man/ibnetdiscover.8.in.rst).

Each node is a record: lines with GUIDs, a line with the type, the number of ports and the node description, and a line
for each connected port. A link is in the records of both of its ends. So a truncated or edited file has a link with
one end, and is rejected: a part of a fabric would give wrong levels.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.fabric.host_names import host_of, is_aggregation_node
from zonewise_scheduler.fabric.switch_names import switch_names
from zonewise_scheduler.fabric.text_lines import excerpt
from zonewise_scheduler.fabric.types import FabricError, FabricSwitch, Hca, NetworkFabric, link

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.fabric.text_lines import NumberedLines

_GUIDS = re.compile(r"(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=0x[0-9a-f]+(?:\([0-9a-f]+\))?\s*(?:#.*)?")
_NODE = re.compile(r'(Switch|Ca|Rt)\s+(\d{1,3})\s+"([SHR])-([0-9a-f]{1,16})"\s+#\s+"(.*)"[^"]*')
_PORT = re.compile(
    r'\[(\d{1,3})\](?:\[ext \d+\])?(?:\([0-9a-f]+\))?\s+"([SHR])-([0-9a-f]{1,16})"\[(\d{1,3})\]'
    r"(?:\[ext \d+\])?\s*(?:\([0-9a-f]+\))?\s*(?:#.*)?"
)
_KINDS = {"Switch": "S", "Ca": "H", "Rt": "R"}
_GROUPED = re.compile(r"Chassis \d+")
_IGNORED = ("", "Non-Chassis Nodes")
MAX_GUID_DIGITS = 16


class _Node(NamedTuple):
    id: str
    """The letter of the kind and the GUID: "S-2c5eab0300b87b40"."""
    ports: int
    file: str


class _Where(NamedTuple):
    file: str
    line: int

    def error(self, message: str) -> FabricError:
        return FabricError(f"{self.file}, line {self.line}: {message}")


class _Half(NamedTuple):
    """A link as the record of its first end describes it."""

    peer: tuple[str, int]
    where: _Where


class _Dump:
    """The nodes and links of all files so far."""

    def __init__(self) -> None:
        self.nodes: dict[str, _Node] = {}
        self.descriptions: dict[str, str] = {}
        self.links: set[tuple[str, str]] = set()
        self.leaves: dict[str, set[str]] = {}
        """Switches of each HCA."""
        self._halves: dict[tuple[str, int], _Half] = {}
        """Links of which one end has been read. Only links that are still open need memory."""
        self._ports: dict[str, int] = {}
        """Ports of each node that have been read, as bits."""

    def start(self, match: re.Match[str], where: _Where) -> _Node:
        """Add a node. Its ports follow."""
        word, ports, letter, digits, description = match.groups()
        if _KINDS[word] != letter:
            raise where.error(f'{word} with the id "{letter}-{digits}"')
        name = f"{letter}-{digits.rjust(MAX_GUID_DIGITS, '0')}"
        known = self.nodes.get(name)
        if known and (letter == "S" or known.file == where.file):
            raise where.error(f"{name} is already described in {known.file}; pass each fabric only once")
        self.nodes[name] = _Node(name, int(ports), where.file)
        self.descriptions[name] = description
        if letter == "H":
            self.leaves.setdefault(name, set())
        return self.nodes[name]

    def connect(self, node: _Node, match: re.Match[str], where: _Where) -> None:
        """Add a port of a node, and its link if the other end is already known."""
        number, letter, digits, peer_number = match.groups()
        port = (node.id, int(number))
        peer = (f"{letter}-{digits.rjust(MAX_GUID_DIGITS, '0')}", int(peer_number))
        if not 1 <= port[1] <= node.ports:
            raise where.error(f"port {number} of {node.id}, which has {node.ports} ports")
        ports = self._ports.get(node.id, 0)
        if ports >> port[1] & 1:
            raise where.error(f"port {number} of {node.id} is listed twice")
        self._ports[node.id] = ports | 1 << port[1]
        half = self._halves.pop(peer, None)
        if half is None:
            self._halves[port] = _Half(peer, where)
        elif half.peer == port:
            self._link(node.id, peer[0])
        else:
            raise half.where.error(
                f"port {peer[1]} of {peer[0]} is connected to {_port(half.peer)} here, and to {_port(port)} "
                f"in line {where.line} of {where.file}"
            )

    def _link(self, one: str, two: str) -> None:
        for near, far in ((one, two), (two, one)):
            if near.startswith("H") and far.startswith("S"):
                self.leaves[near].add(far)
        if one.startswith("S") and two.startswith("S") and one != two:
            self.links.add(link(one, two))

    def end_of_file(self) -> None:
        """Raise FabricError for a link with one end."""
        for port, half in self._halves.items():
            peer = self.nodes.get(half.peer[0])
            if peer is None:
                raise half.where.error(
                    f"port {port[1]} of {port[0]} is connected to {half.peer[0]}, which the file does not describe: "
                    "the file is truncated"
                )
            raise half.where.error(
                f"port {port[1]} of {port[0]} is connected to {_port(half.peer)}, which does not show this link: the "
                "file is damaged"
            )


def read_dumps(files: Iterable[tuple[str, NumberedLines]]) -> NetworkFabric:
    """Return the fabric of all dumps, each with its name. Raises FabricError.

    Each dump is one subnet. An HCA with ports in two subnets is in both dumps.
    """
    dump = _Dump()
    for name, lines in files:
        _read(dump, name, lines)
        dump.end_of_file()
    return _fabric(dump)


def _read(dump: _Dump, name: str, lines: NumberedLines) -> None:
    node: _Node | None = None
    for number, text in lines:
        where = _Where(name, number)
        line = text.strip()
        if line in _IGNORED or line.startswith("#") or _GUIDS.fullmatch(line):
            node = None
        elif match := _NODE.fullmatch(line):
            node = dump.start(match, where)
        elif match := _PORT.fullmatch(line):
            if node is None:
                raise where.error("a port without the line of its node")
            dump.connect(node, match, where)
        elif _GROUPED.match(line):
            raise where.error("a dump with groups (-g) lists switches twice; run ibnetdiscover without -g")
        else:
            raise where.error(f"not a line of an ibnetdiscover dump: {excerpt(line)}")


def _fabric(dump: _Dump) -> NetworkFabric:
    names = switch_names({node[2:]: dump.descriptions[node] for node in dump.nodes if node.startswith("S")})
    hcas = (
        Hca(node[2:], dump.descriptions[node], host_of(dump.descriptions[node]), frozenset(leaf[2:] for leaf in leaves))
        for node, leaves in dump.leaves.items()
        if not is_aggregation_node(dump.descriptions[node])
    )
    return NetworkFabric(
        {guid: FabricSwitch(name) for guid, name in names.items()},
        frozenset((one[2:], two[2:]) for one, two in dump.links),
        tuple(sorted(hcas)),
    )


def _port(port: tuple[str, int]) -> str:
    return f"port {port[1]} of {port[0]}"
