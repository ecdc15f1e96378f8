"""Reads the topology file of ibnetdiscover (rdma-core, infiniband-diags/man/ibnetdiscover.8.in.rst).

Each node is a record. It has lines with GUIDs, and one with the type, the number of ports and the node description. A
line for each connected port follows. A link is in the records of both of its ends. So a truncated or edited file has a
link with one end, and is rejected: a part of a fabric would give wrong levels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.fabric.host_names import host_of, is_aggregation_node
from zonewise_scheduler.fabric.switch_names import switch_names
from zonewise_scheduler.fabric.text_lines import excerpt
from zonewise_scheduler.fabric.types import FabricError, FabricSwitch, Hca, NetworkFabric, link

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.fabric.text_lines import NumberedLines

_GUIDS = re.compile(r"(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=0x[0-9a-f]+(?:\([0-9a-f]+\))?\s*(?:#.*)?")
_NODE_LINE = re.compile(r'(Switch|Ca|Rt)\s+(\d{1,3})\s+"([SHR])-([0-9a-f]{1,16})"\s+#\s+"(.*)"[^"]*')
_PORT_LINE = re.compile(
    r'\[(\d{1,3})\](?:\[ext \d+\])?(?:\([0-9a-f]+\))?\s+"([SHR])-([0-9a-f]{1,16})"\[(\d{1,3})\]'
    r"(?:\[ext \d+\])?\s*(?:\([0-9a-f]+\))?\s*(?:#.*)?"
)
_KINDS = {"Switch": "S", "Ca": "H", "Rt": "R"}
_GROUPED = re.compile(r"Chassis \d+")
_IGNORED = ("", "Non-Chassis Nodes")
MAX_GUID_DIGITS = 16


@dataclass(slots=True)
class _FabricNode:
    """A node of the fabric: a switch, an HCA or a router."""

    id: str
    """The letter of the kind and the GUID: "S-2c5eab0300b87b40"."""
    ports: int
    file: str
    description: str
    listed: int = 0
    """Ports that have been read, as bits."""
    leaves: frozenset[str] = frozenset()
    """GUIDs of the switches of an HCA."""


class _Where(NamedTuple):
    file: str
    line: int

    def error(self, message: str) -> FabricError:
        return FabricError(f"{self.file}, line {self.line}: {message}")


_Port = tuple[str, int]
"""A node and the number of its port."""


class _Dump:
    """The nodes and links of all files so far."""

    def __init__(self) -> None:
        self.nodes: dict[str, _FabricNode] = {}
        self.links: set[tuple[str, str]] = set()
        self._halves: dict[_Port, tuple[_Port, int]] = {}
        """The other end and the line of each link of which this file has shown one end so far."""
        self._leaves: dict[frozenset[str], frozenset[str]] = {}
        """Each set of leaves once, because many HCAs have the same."""

    def start(self, match: re.Match[str], where: _Where) -> _FabricNode:
        """Add a node. Its ports follow."""
        word, ports, letter, digits, description = match.groups()
        if _KINDS[word] != letter:
            raise where.error(f'{word} with the id "{letter}-{digits}"')
        name = f"{letter}-{digits.rjust(MAX_GUID_DIGITS, '0')}"
        known = self.nodes.get(name)
        if known is None:
            known = self.nodes[name] = _FabricNode(name, int(ports), where.file, description)
        elif letter == "S" or known.file == where.file:
            raise where.error(f"{name} is already described in {known.file}; pass each fabric only once")
        known.file = where.file
        return known

    def add_port(self, node: _FabricNode, match: re.Match[str], where: _Where) -> None:
        """Add a port of a node, and its link if the other end is already known."""
        number, letter, digits, peer_number = match.groups()
        port = (node.id, int(number))
        peer = (f"{letter}-{digits.rjust(MAX_GUID_DIGITS, '0')}", int(peer_number))
        if not 1 <= port[1] <= node.ports:
            raise where.error(f"port {number} of {node.id}, which has {node.ports} ports")
        if node.listed >> port[1] & 1:
            raise where.error(f"port {number} of {node.id} is listed twice")
        node.listed |= 1 << port[1]
        half = self._halves.pop(peer, None)
        if half is None:
            self._halves[port] = (peer, where.line)
        elif half[0] == port:
            self._link(node.id, peer[0])
            self._link(peer[0], node.id)
        else:
            raise where._replace(line=half[1]).error(
                f"port {peer[1]} of {peer[0]} is connected to {_text(half[0])} here, and to {_text(port)} "
                f"in line {where.line}"
            )

    def _link(self, one: str, two: str) -> None:
        """Add a link in one of its directions."""
        if not two.startswith("S") or one == two:
            return
        guid = two[2:]
        if one.startswith("S"):
            self.links.add(link(one[2:], guid))
        elif one.startswith("H"):
            leaves = self.nodes[one].leaves | {guid}
            self.nodes[one].leaves = self._leaves.setdefault(leaves, leaves)

    def end_of_file(self, file: str) -> None:
        """Raise FabricError for a link with one end."""
        for port, (peer, line) in self._halves.items():
            if peer[0] in self.nodes:
                problem = f"{_text(peer)}, which does not show this link: the file is damaged"
            else:
                problem = f"{peer[0]}, which the file does not describe: the file is truncated"
            raise _Where(file, line).error(f"port {port[1]} of {port[0]} is connected to {problem}")


def read_dumps(files: Iterable[tuple[str, NumberedLines]]) -> NetworkFabric:
    """Return the fabric of all dumps, each with its name. Raises FabricError.

    Each dump is one subnet. An HCA with ports in two subnets is in both dumps.
    """
    dump = _Dump()
    for name, lines in files:
        _read(dump, name, lines)
        dump.end_of_file(name)
    return _fabric(dump)


def _read(dump: _Dump, name: str, lines: NumberedLines) -> None:
    node: _FabricNode | None = None
    for number, text in lines:
        where = _Where(name, number)
        line = text.strip()
        if line in _IGNORED or line.startswith("#") or _GUIDS.fullmatch(line):
            node = None
        elif match := _NODE_LINE.fullmatch(line):
            node = dump.start(match, where)
        elif match := _PORT_LINE.fullmatch(line):
            if node is None:
                raise where.error("a port without the line of its node")
            dump.add_port(node, match, where)
        elif _GROUPED.match(line):
            raise where.error("a dump with groups (-g) lists switches twice; run ibnetdiscover without -g")
        else:
            raise where.error(f"not a line of an ibnetdiscover dump: {excerpt(line)}")


def _fabric(dump: _Dump) -> NetworkFabric:
    names = switch_names({node.id[2:]: node.description for node in dump.nodes.values() if node.id.startswith("S")})
    hcas = (
        Hca(node.id[2:], node.description, host_of(node.description), node.leaves)
        for node in dump.nodes.values()
        if node.id.startswith("H") and not is_aggregation_node(node.description)
    )
    return NetworkFabric(
        {guid: FabricSwitch(name) for guid, name in names.items()}, frozenset(dump.links), tuple(sorted(hcas))
    )


def _text(port: _Port) -> str:
    return f"port {port[1]} of {port[0]}"
