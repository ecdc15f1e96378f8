"""The kind of a file follows from its first line."""

from __future__ import annotations

import io

import pytest

from support.fabrics import dump, fat_tree
from zonewise_scheduler.fabric.reading import read_fabric
from zonewise_scheduler.fabric.text_lines import numbered_lines
from zonewise_scheduler.fabric.types import FabricError, NetworkFabric

DUMP = dump(fat_tree(units=2, hosts=2))
CONF = "# comment\n\nSwitchName=s1 Nodes=n[1-2]\n"
YAML = "# comment\n---\n- topology: a\n  tree: {switches: [{switch: s1, nodes: 'n[1-2]'}]}\n"


def read(*texts: str, topology: str = "") -> NetworkFabric:
    files = [("abc"[i], numbered_lines(io.BytesIO(text.encode()), "abc"[i])) for i, text in enumerate(texts)]
    return read_fabric(files, topology)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        (DUMP, 4),
        (CONF, 2),
        (YAML, 2),
        (YAML.replace("---\n", ""), 2),
        ("\ufeff" + CONF[CONF.index("Switch") :].replace("\n", "\r\n"), 2),
    ],
)
def test_each_kind(text: str, hosts: int) -> None:
    """Comments may precede the first line. An editor may have added a byte order mark and carriage returns."""
    assert len(read(text).hcas) == hosts


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("",), "a: contains no switch"),
        (("# nothing\n" * 10_005,), "a: contains no switch"),
        (("{}\n",), 'a, line 1: not a line of an ibnetdiscover dump: "{}"'),
        ((CONF, CONF), "a: a file of Slurm describes the whole fabric; pass it alone, without b"),
        ((DUMP, CONF), 'b, line 3: not a line of an ibnetdiscover dump: "SwitchName=s1'),
        (("ab\0c\n",), "a, line 1: contains a null byte: this is not a text file"),
        (("x" * (1 << 20) + "\n",), "a, line 1: longer than 1048576 bytes"),
    ],
)
def test_other_files_are_rejected(texts: tuple[str, ...], message: str) -> None:
    """The error names the file and the line."""
    with pytest.raises(FabricError) as error:
        read(*texts)
    assert message in str(error.value)


def test_a_topology_of_slurm_needs_its_file() -> None:
    """The option has no meaning for other files."""
    with pytest.raises(FabricError, match=r"a: is not a topology\.yaml"):
        read(DUMP, topology="a")
    with pytest.raises(FabricError, match=r"a: is not a topology\.yaml"):
        read(CONF, topology="a")
