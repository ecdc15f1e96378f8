"""Machines of any kind for property tests: overlapping CPU sets, unknown facts, and unusual names.

Discovery would report many of them as damaged. All code that uses a Machine must tolerate them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.machine_parts import Slot, function
from zonewise.machine.model.cpu import Cache, Cluster, Core, Cpus, Die, Group, Package
from zonewise.machine.model.gpu import Gpu, Health, Mig, MigInstance, NvLinkPeer
from zonewise.machine.model.host import Accelerator, BlockDevice, DaxDevice, Kernel, Virtualization
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.network import Nic, Port, RdmaDevice
from zonewise.machine.model.pci import Link, PciLink, Sriov
from zonewise.machine.model.problem import Problem
from zonewise.machine.model.zone import Access, MemorySideCache, Zone
from zonewise_common.k8s.cpuset import CpuSet

MOST_CPUS = 40
NAMES = st.text(max_size=30) | st.sampled_from(
    ["eth0", "Intel(R) Xeon(R) CPU", "联想 ThinkSystem", "a\x1b[31mred", "e\u0301", "x" * 200, "<&\">'", "\x00\n"]
)
SIZES = st.none() | st.integers(0, 1 << 63)
IDS = st.none() | st.integers(-1, 70)
CPU_SETS = st.sets(st.integers(0, MOST_CPUS - 1), max_size=MOST_CPUS).map(CpuSet)
SOME_CPUS = st.sets(st.integers(0, MOST_CPUS - 1), min_size=1, max_size=12).map(CpuSet)
ZONE_IDS = st.none() | st.integers(0, 5)
ADDRESSES = st.builds("0000:{:02x}:{:02x}.{}".format, st.integers(0, 7), st.integers(0, 3), st.integers(0, 1))


def _tuples(strategy: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


def _blocks(length: int) -> tuple[CpuSet, ...]:
    """Split all CPUs into blocks of equal size, as on a healthy machine."""
    return tuple(CpuSet(range(start, min(start + length, MOST_CPUS))) for start in range(0, MOST_CPUS, length))


def _sets(most: int) -> st.SearchStrategy[tuple[CpuSet, ...]]:
    return st.sampled_from([4, 8, 20]).map(_blocks) | _tuples(SOME_CPUS, most)


ACCESSES = st.builds(Access, st.integers(0, 1), st.just((0,)), SIZES, SIZES, SIZES, SIZES)


ZONE_FACTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "memory": SIZES,
        "hugepages": st.dictionaries(NAMES, st.integers(0, 9), max_size=2),
        "distances": st.dictionaries(st.sampled_from("012345"), st.integers(0, 999), max_size=6),
        "kind": st.sampled_from(["cpu", "memory", "device"]),
        "accesses": _tuples(ACCESSES, 1),
        "side_caches": _tuples(st.builds(MemorySideCache, st.just(1), SIZES, SIZES), 1),
        "medium": NAMES | st.none(),
        "device": ADDRESSES | st.none(),
    }
)


@st.composite
def _zones(draw: st.DrawFn) -> tuple[Zone, ...]:
    sets = [*draw(_sets(4))[:6], *draw(st.lists(st.just(CpuSet()), max_size=4))]
    return tuple(Zone(number, held, held or draw(CPU_SETS), **draw(ZONE_FACTS)) for number, held in enumerate(sets))


_LINKS = st.none() | st.builds(
    PciLink,
    st.none() | st.sampled_from([2.5, 8.0, 32.0, 3.0]),
    st.none() | st.sampled_from([0, 1, 8, 16, 255]),
    st.none() | st.sampled_from([2.5, 8.0, 32.0]),
    st.none() | st.sampled_from([0, 1, 8, 16]),
)


@st.composite
def _pci(draw: st.DrawFn) -> tuple[Any, ...]:
    found: list[Any] = []
    for address in sorted(draw(st.sets(ADDRESSES, max_size=14))):
        root = draw(st.sampled_from(["pci0000:00", "pci0000:80", "platform/pci0000:00"]))
        bridges = draw(st.sampled_from([(), ("a",), ("a", "b"), ("a", "b", "c"), ("d",)]))
        made = function(
            address, draw(st.sampled_from(["0200", "0302", "0108", "0604", "1200", "0300"])), ("10de", "2330"),
            Slot(root, bridges, draw(ZONE_IDS), draw(_LINKS)), cpus=draw(st.none() | CPU_SETS),
            sriov=draw(st.none() | st.builds(Sriov, st.just(8), st.none() | st.integers(0, 8))),
            physical_function=draw(st.none() | ADDRESSES), driver=draw(st.none() | NAMES),
        )  # fmt: skip
        found.append(made)
    return tuple(found)


GPUS = st.builds(
    Gpu,
    address=ADDRESSES | st.none(),
    uuid=st.none(),
    vendor=NAMES,
    model=NAMES | st.none(),
    memory=SIZES,
    zone=ZONE_IDS,
    driver=NAMES | st.none(),
    mig=st.none()
    | st.builds(
        Mig,
        st.booleans(),
        st.booleans(),
        _tuples(st.builds(MigInstance, NAMES, NAMES, IDS, IDS, SIZES, IDS), 3),
    ),
    fabric=st.none(),
    health=st.none() | st.builds(Health, ecc_uncorrected=SIZES, recovery_action=NAMES, remapping_failed=st.booleans()),
    number=IDS,
    nvlinks=_tuples(st.builds(NvLinkPeer, ADDRESSES, st.sampled_from(["gpu", "switch", "npu"]), st.integers(1, 18)), 2),
)
NICS = st.builds(
    Nic,
    NAMES,
    ADDRESSES | st.none(),
    ZONE_IDS,
    NAMES | st.none(),
    st.none() | st.integers(-1, 800000),
    NAMES | st.none(),
    st.none(),
    NAMES | st.none(),
    st.none(),
    st.none() | st.sampled_from(["mlx5_0", "mlx5_1"]),
    virtual=st.booleans(),
    physical_function=st.none() | ADDRESSES,
)
PORTS = st.builds(
    Port,
    st.integers(1, 2),
    st.none() | st.sampled_from(["ACTIVE", "DOWN"]) | NAMES,
    st.none(),
    st.none() | st.floats(0, 1000),
    NAMES | st.none(),
    st.none(),
    st.none(),
    st.just(()),
    st.just({}),
    st.just({}),
)
RDMA = st.builds(
    RdmaDevice,
    st.sampled_from(["mlx5_0", "mlx5_1", "mlx5_2"]),
    ADDRESSES | st.none(),
    ZONE_IDS,
    st.none(),
    st.none(),
    st.none(),
    _tuples(PORTS, 2),
)
DRIVES = st.builds(
    BlockDevice, NAMES, ADDRESSES | st.none(), ZONE_IDS, SIZES, st.none(), NAMES | st.none(), NAMES | st.none()
)
RELATIONS = st.sampled_from(["SAME", "PIX", "PXB", "PHB", "NODE", "SYS", "NV2", "NV18", None])


@st.composite
def any_machines(draw: st.DrawFn) -> Machine:
    kinds = st.sampled_from([None, "performance", "efficiency"])
    return Machine(
        architecture=draw(NAMES | st.none()),
        hostname=draw(NAMES | st.none()),
        product=draw(NAMES | st.none()),
        kernel=Kernel(draw(NAMES | st.none())),
        virtualization=Virtualization(draw(st.none() | st.booleans()), draw(NAMES | st.none())),
        cpus=Cpus(
            draw(CPU_SETS), draw(CPU_SETS), isolated=draw(st.none() | CPU_SETS), allowed=draw(st.none() | CPU_SETS)
        ),
        packages=tuple(Package(draw(IDS), held, draw(NAMES | st.none())) for held in draw(_sets(4))),
        dies=tuple(Die(draw(IDS), None, held) for held in draw(_tuples(SOME_CPUS, 2))),
        clusters=tuple(Cluster(draw(IDS), None, held) for held in draw(_sets(3))),
        groups=tuple(Group("book", draw(IDS), held) for held in draw(_tuples(SOME_CPUS, 1))),
        cores=tuple(Core(draw(IDS), None, None, held, draw(kinds)) for held in draw(_sets(12))),
        caches=tuple(
            Cache(draw(st.integers(1, 4)), draw(st.sampled_from(["Data", "Instruction", "Unified"])), draw(SIZES), held)
            for held in draw(_sets(8))
        ),
        zones=draw(_zones()),
        memory=draw(SIZES),
        pci=draw(_pci()),
        gpus=draw(_tuples(GPUS, 4)),
        nics=draw(_tuples(NICS, 5)),
        infiniband=draw(_tuples(RDMA, 3)),
        block_devices=draw(_tuples(DRIVES, 5)),
        dax_devices=draw(_tuples(st.builds(DaxDevice, NAMES, ZONE_IDS, SIZES, NAMES, NAMES), 2)),
        accelerators=draw(_tuples(st.builds(Accelerator, NAMES, ADDRESSES, ZONE_IDS, NAMES, NAMES, NAMES, NAMES), 2)),
        links=draw(_tuples(st.builds(Link, ADDRESSES, ADDRESSES, RELATIONS), 10)),
        problems=draw(_tuples(st.builds(Problem, NAMES, NAMES, NAMES | st.none()), 4)),
    )
