"""Reads Slurm's topology.conf, for topology/tree and topology/block (slurm doc/man/man5/topology.conf.5)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise_scheduler.fabric.slurm_topology import SlurmEntry, block_fabric, tree_fabric
from zonewise_scheduler.fabric.text_lines import MAX_LINE, excerpt
from zonewise_scheduler.fabric.types import FabricError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.fabric.text_lines import NumberedLines
    from zonewise_scheduler.fabric.types import NetworkFabric

_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*(?:"([^"]*)"|(\S*))\s*')
_KEYS = {
    "switchname": {"switchname", "nodes", "switches", "linkspeed"},
    "blockname": {"blockname", "nodes"},
    "blocksizes": {"blocksizes"},
}
"""Keys of a line by its first key, all in lower case (switch_record.c _parse_switches, block_record.c _parse_block)."""


def is_slurm_conf(line: str) -> bool:
    """Return whether a line may be the first one of topology.conf, apart from comments."""
    return re.match(r"\s*(switchname|blockname|blocksizes|ringname|include)\b", line, re.IGNORECASE) is not None


def read_slurm_conf(name: str, lines: NumberedLines) -> NetworkFabric:
    """Return the fabric of a topology.conf. Raises FabricError."""
    switches: list[SlurmEntry] = []
    blocks: list[SlurmEntry] = []
    sizes: list[int] = []
    sizes_where = name
    for number, line in _logical_lines(name, lines):
        where = f"{name}, line {number}"
        pairs = _pairs(where, line)
        if "switchname" in pairs:
            switches.append(SlurmEntry(where, pairs["switchname"], pairs.get("nodes", ""), pairs.get("switches", "")))
        elif "blockname" in pairs:
            blocks.append(SlurmEntry(where, pairs["blockname"], pairs.get("nodes", "")))
        else:
            sizes, sizes_where = _sizes(where, pairs["blocksizes"]), where
    if switches and blocks:
        raise FabricError(f"{blocks[0].where}: a block in a file of switches")
    if not switches and not blocks:
        raise FabricError(f"{name}: contains neither a switch nor a block")
    return tree_fabric(switches) if switches else block_fabric(blocks, sizes, sizes_where)


def _logical_lines(name: str, lines: NumberedLines) -> Iterator[tuple[int, str]]:
    r"""Yield lines without comments, joined if they end with "\" (src/common/parse_config.c)."""
    parts: list[str] = []
    first = length = 0
    for number, text in lines:
        first = first if parts else number
        continued = text.endswith("\\")
        parts.append(text.partition("#")[0] if not continued else text[:-1].partition("#")[0])
        length += len(text)
        if length > MAX_LINE:
            raise FabricError(f"{name}, line {first}: longer than {MAX_LINE} characters with its continuations")
        if continued:
            continue
        line = "".join(parts).strip()
        parts, length = [], 0
        if line:
            yield first, line
    if parts:
        raise FabricError(f"{name}, line {first}: the file ends within a line that continues: it is truncated")


def _pairs(where: str, line: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    position = 0
    while position < len(line):
        match = _PAIR.match(line, position)
        if match is None:
            raise FabricError(f"{where}: {excerpt(line[position:])} is not a KEY=VALUE of topology.conf")
        key = match[1].lower()
        if key in pairs:
            raise FabricError(f"{where}: {match[1]} is set twice")
        if match[3] is not None and (not match[3] or "=" in match[3]):
            raise FabricError(f"{where}: {match[1]} has no value")
        pairs[key] = match[2] if match[3] is None else match[3]
        position = match.end()
    first = next(iter(pairs))
    if first == "ringname":
        raise FabricError(f"{where}: topology/ring has no levels; only topology/tree and topology/block have")
    for key in pairs:
        if key not in _KEYS.get(first, ()):
            raise FabricError(f"{where}: unknown key {excerpt(key)}")
    return pairs


def _sizes(where: str, text: str) -> list[int]:
    if not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", text):
        raise FabricError(f"{where}: BlockSizes {excerpt(text)} is not a list of numbers")
    return [int(size) for size in text.split(",")]
