"""Reads Slurm's topology.yaml, which may contain several topologies (slurm doc/man/man5/topology.yaml.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from zonewise_common.k8s.fields import FieldError, object_in, objects_in, string_in
from zonewise_common.k8s.tolerant import abbreviated
from zonewise_common.k8s.yaml_document import load_yaml
from zonewise_scheduler.fabric.slurm_topology import SlurmEntry, block_fabric, tree_fabric
from zonewise_scheduler.fabric.text_lines import excerpt
from zonewise_scheduler.fabric.types import FabricError

if TYPE_CHECKING:
    from zonewise_scheduler.fabric.text_lines import NumberedLines
    from zonewise_scheduler.fabric.types import NetworkFabric

_MAX_LENGTH = 16 << 20

Json = dict[str, Any]


def read_slurm_yaml(name: str, lines: NumberedLines, topology: str = "") -> NetworkFabric:
    """Return the fabric of one topology of a topology.yaml. Raises FabricError.

    Without its name, it is the only one of kind tree or block, or else the first one with `cluster_default`.
    """
    try:
        # a list of the file becomes a field, so that errors name its items
        topologies = objects_in({"topologies": load_yaml(_text(name, lines))}, "topologies", "")
        index, chosen = _chosen(topologies, topology)
        path = f"topologies[{index}]."
        if tree := object_in(chosen, "tree", path):
            return tree_fabric(_entries(name, tree, "switches", f"{path}tree."))
        block = object_in(chosen, "block", path)
        blocks = _entries(name, block, "blocks", f"{path}block.")
        return block_fabric(blocks, _sizes(block, f"{path}block."), f"{name}: {path}block.block_sizes")
    except FabricError:
        raise
    except ValueError as error:
        raise FabricError(f"{name}: {error}") from error


def _text(name: str, lines: NumberedLines) -> str:
    texts: list[str] = []
    length = 0
    for _, text in lines:
        texts.append(text)
        length += len(text) + 1
        if length > _MAX_LENGTH:
            raise FabricError(f"{name}: longer than {_MAX_LENGTH} characters")
    return "\n".join(texts)


def _chosen(topologies: list[Json], wanted: str) -> tuple[int, Json]:
    usable = [
        (index, entry)
        for index, entry in enumerate(topologies)
        if (entry.get("tree") or entry.get("block")) and wanted in ("", entry.get("topology"))
    ]
    defaults = [(index, entry) for index, entry in usable if entry.get("cluster_default") is True]
    if len(usable) == 1 or (usable and wanted):
        return usable[0]
    if defaults:
        return defaults[0]
    names = ", ".join(excerpt(str(entry.get("topology"))) for entry in topologies)
    if usable:
        raise ValueError(f"several topologies of kind tree or block, and no default: select one of {names}")
    subject = f"no topology {excerpt(wanted)}" if wanted else "no topology"
    raise ValueError(f"{subject} of kind tree or block; the file contains {names or 'none'}")


def _entries(name: str, owner: Json, field: str, path: str) -> list[SlurmEntry]:
    """Return the switches or blocks of a topology."""
    kind = {"switches": "switch", "blocks": "block"}[field]
    entries: list[SlurmEntry] = []
    for index, item in enumerate(objects_in(owner, field, path)):
        where = f"{path}{field}[{index}]"
        texts = (string_in(item, key, f"{where}.") for key in (kind, "nodes", "children"))
        entries.append(SlurmEntry(f"{name}: {where}", *texts))
    if not entries:
        raise FieldError(f"{path}{field}", f"contains no {kind}")
    return entries


def _sizes(block: Json, path: str) -> list[int]:
    sizes: Any = block.get("block_sizes") or []
    if not isinstance(sizes, list) or any(type(size) is not int for size in cast("list[object]", sizes)):
        raise FieldError(f"{path}block_sizes", f"not a list of numbers: {abbreviated(cast('object', sizes))}")
    return cast("list[int]", sizes)
