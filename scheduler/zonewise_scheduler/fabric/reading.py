"""Recognizes the kind of each file by its first line, and reads all of them as one fabric."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from zonewise_scheduler.fabric.ibnetdiscover import read_dumps
from zonewise_scheduler.fabric.slurm_conf import is_slurm_conf, read_slurm_conf
from zonewise_scheduler.fabric.slurm_yaml import read_slurm_yaml
from zonewise_scheduler.fabric.types import FabricError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.fabric.text_lines import NumberedLines
    from zonewise_scheduler.fabric.types import NetworkFabric

_MAX_COMMENTS = 10_000
"""Maximum number of lines before the first one that is not a comment."""
_YAML = re.compile(r"---|-\s+\w+:|\[\s*[{\]]")


def read_fabric(files: Sequence[tuple[str, NumberedLines]], slurm_topology: str = "") -> NetworkFabric:
    """Return the fabric of dumps of ibnetdiscover, or of one file of Slurm. Raises FabricError."""
    name, lines = files[0]
    line, lines = _first_line(lines)
    is_conf, is_yaml = is_slurm_conf(line), _YAML.match(line) is not None
    if slurm_topology and not is_yaml:
        raise FabricError(f"{name}: is not a topology.yaml, so there is no topology to select")
    if (is_conf or is_yaml) and len(files) > 1:
        raise FabricError(f"{name}: a file of Slurm describes the whole fabric; pass it alone, without {files[1][0]}")
    if is_conf:
        fabric = read_slurm_conf(name, lines)
    elif is_yaml:
        fabric = read_slurm_yaml(name, lines, slurm_topology)
    else:
        fabric = read_dumps([(name, lines), *files[1:]])
    if not fabric.switches:
        raise FabricError(f"{name}: contains no switch")
    return fabric


def _first_line(lines: NumberedLines) -> tuple[str, NumberedLines]:
    """Return the first line that is neither empty nor a comment, "" if there is none, and all lines."""
    iterator = iter(lines)
    head: list[tuple[int, str]] = []
    for number, text in iterator:
        head.append((number, text))
        if text.strip() and not text.lstrip().startswith("#"):
            return text, chain(head, iterator)
        if len(head) > _MAX_COMMENTS:
            break
    return "", chain(head, iterator)
