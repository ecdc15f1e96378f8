"""InfiniBand fabrics for tests: their dumps as ibnetdiscover writes them, and random ones."""

from __future__ import annotations

import io
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from zonewise_scheduler.fabric.ibnetdiscover import read_dumps
from zonewise_scheduler.fabric.text_lines import numbered_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.fabric.types import NetworkFabric

RADIX = 128
_HEAD = """\
#
# Topology file: generated on Wed Aug  6 16:11:23 2025
#
# Initiated from node e09d730300156ff6 port e09d730300156ff6
"""


class Cabling(NamedTuple):
    """A fabric as cables between nodes of the fabric. A name that begins with "S" is that of a switch."""

    descriptions: dict[str, str]
    """Node descriptions by name."""
    cables: list[tuple[str, str]]


def hca(host: str, device: int) -> str:
    """Return the name of an HCA."""
    return f"H{host} mlx5_{device}"


def cabling(cables: Iterable[tuple[str, str]]) -> Cabling:
    """Return a fabric whose node descriptions are the names, in the form of NVIDIA's switches and of rdma-ndd."""
    pairs = list(cables)
    names = dict.fromkeys(name for pair in pairs for name in pair)
    texts = {name: f"MF0;{name[1:]}:MQM9700/U1" if name.startswith("S") else name[1:] for name in names}
    return Cabling(texts, pairs)


def fat_tree(
    *, pods: int = 1, units: int = 2, rails: int = 1, hosts: int = 3, spines: int = 2, cores: int = 2
) -> Cabling:
    """Return a rail-optimized fat tree.

    A unit has a leaf for each rail. The spines of a pod are connected to all of its leaves, and the cores to all
    spines. There are no cores if there is one pod.
    """
    cables: list[tuple[str, str]] = []
    for pod in range(pods):
        leaves = [(unit, rail, f"Sleaf-{pod}-{unit}-{rail}") for unit in range(units) for rail in range(rails)]
        for unit, rail, leaf in leaves:
            cables += [(hca(f"node-{pod}-{unit}-{host}", rail), leaf) for host in range(hosts)]
            cables += [(leaf, f"Sspine-{pod}-{spine}") for spine in range(spines)]
        if pods > 1:
            cables += [(f"Sspine-{pod}-{spine}", f"Score-{core}") for spine in range(spines) for core in range(cores)]
    return cabling(cables)


@st.composite
def fat_trees(draw: st.DrawFn) -> Cabling:
    """Return a random fat tree in which some cables are absent and some lead to a wrong switch."""
    sizes = st.integers(1, 3)
    tree = fat_tree(pods=draw(sizes), units=draw(sizes), rails=draw(sizes), hosts=draw(sizes), spines=draw(sizes))
    switches = sorted(name for name in tree.descriptions if name.startswith("S"))
    cables = draw(st.lists(st.sampled_from(tree.cables), unique=True)) if draw(st.booleans()) else tree.cables
    wrong = draw(st.lists(st.sampled_from(cables or tree.cables), max_size=2))
    moved = [(one, draw(st.sampled_from(switches))) for one, _ in wrong]
    return cabling([*(pair for pair in cables if pair not in wrong), *(pair for pair in moved if pair[0] != pair[1])])


def dump(
    fabric: Cabling, seed: int = 0, *, guids: Mapping[str, str] = MappingProxyType({}), first_port: int = 1
) -> str:
    """Return the output of ibnetdiscover; the seed shuffles GUIDs, ports and the order of records.

    `guids` overrides some GUIDs. Ports are counted from `first_port`.
    """
    random = Random(seed)
    names = list(fabric.descriptions)
    random.shuffle(names)
    ids = {name: f"{0x2C5EAB0300000000 + number:016x}" for number, name in enumerate(names)} | dict(guids)
    cables = list(fabric.cables)
    random.shuffle(cables)
    ports: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
    for one, two in cables:
        numbers = [len(ports[end]) + first_port for end in (one, two)]
        ports[one].append((two, numbers[1]))
        ports[two].append((one, numbers[0]))
    random.shuffle(names)
    names.sort(key=lambda name: not name.startswith("S"))
    texts = fabric.descriptions
    records: list[str] = [_HEAD]
    for name in names:
        records.append(_head(name, ids[name], texts[name]))
        records += (_port(name, port, peer, ids, texts) for port, peer in enumerate(ports[name], first_port))
    return "".join(records)


def _head(name: str, guid: str, text: str) -> str:
    ids = f"\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x{guid}\n"
    if name.startswith("S"):
        line = f'Switch\t{RADIX} "S-{guid}"\t\t# "{text}" enhanced port 0 lid 7 lmc 0\n'
        return f"{ids}switchguid=0x{guid}({guid})\n{line}"
    return f'{ids}caguid=0x{guid}\nCa\t{RADIX} "H-{guid}"\t\t# "{text}"\n'


def _port(name: str, number: int, peer: tuple[str, int], guids: dict[str, str], texts: dict[str, str]) -> str:
    other, port = peer
    own = "" if name.startswith("S") else f"({guids[name]}) "
    letter, guid = ("S", "") if other.startswith("S") else ("H", f"({guids[other]}) ")
    lids = "" if name.startswith("S") else "lid 9 lmc 0 "
    return f'[{number}]{own}\t"{letter}-{guids[other]}"[{port}]{guid}\t\t# {lids}"{texts[other]}" lid 8 4xNDR\n'


def read(*texts: str) -> NetworkFabric:
    """Return the fabric of dumps that are called a, b, ..."""
    files = [("abc"[i], numbered_lines(io.BytesIO(text.encode()), "abc"[i])) for i, text in enumerate(texts)]
    return read_dumps(files)
