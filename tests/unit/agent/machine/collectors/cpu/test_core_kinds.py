"""Performance and efficiency cores of every vendor, and machines without such kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cpu_trees import ALL, CPU, add_cache, cpuinfo, cpuset, found, healthy, line, paths, scan, topology_tree
from support.damage import DELETE, Damage
from support.trees import SERVER, Contents, machine_tree
from zonewise.machine.collectors.cpu import core_kinds
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.cpu import CoreKind
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

SINGLES = {str(cpu): cpu for cpu in range(8)}


def eight_cpus(cores: dict[str, int] | None = None) -> Contents:
    """Return a tree of eight CPUs in one package, by default one core each."""
    return topology_tree(cores or SINGLES, {"0-7": 0})


def with_frequencies(tree: Contents, khz: dict[str, tuple[int, int | None]]) -> Contents:
    """Add the highest and the base frequency of CPUs to a tree."""
    tree = dict(tree)
    for text, (maximum, base) in khz.items():
        for cpu in cpuset(text):
            directory = f"{CPU}/cpu{cpu}/cpufreq"
            tree |= {f"{directory}/cpuinfo_max_freq": line(maximum), f"{directory}/cpuinfo_min_freq": line(400_000)}
            if base is not None:
                tree[f"{directory}/base_frequency"] = line(base)
    return tree


def with_capacities(tree: Contents, capacities: dict[str, int]) -> Contents:
    """Add capacities to a tree."""
    more = {f"{CPU}/cpu{cpu}/cpu_capacity": line(value) for text, value in capacities.items() for cpu in cpuset(text)}
    return {**tree, **more}


def with_parts(tree: Contents, parts: dict[str, str]) -> Contents:
    """Add ARM cores with these part numbers to a tree."""
    lines = "".join(
        f"processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU part\t: 0x{part}\n\n"
        for text, part in parts.items()
        for cpu in cpuset(text)
    )
    return {**tree, "proc/cpuinfo": lines.encode()}


def kinds(machine: Machine) -> list[tuple[str | None, str]]:
    """Return the purpose of each kind and its CPUs."""
    return [(kind.kind, str(kind.cpus)) for kind in machine.core_kinds]


def core_labels(machine: Machine) -> list[str | None]:
    """Return the purpose of each core."""
    return [core.kind for core in machine.cores]


HYBRID = {"performance": "0-3", "efficiency": "4-7"}
PMUS: Contents = {"sys/devices/cpu_core/cpus": b"0-3\n", "sys/devices/cpu_atom/cpus": b"4-7\n"}
HYBRID_CORES = {"0-1": 0, "2-3": 4, "4": 8, "5": 9, "6": 10, "7": 11}


def test_intel_names_its_kinds() -> None:
    """The PMUs name the kinds, whatever the frequencies.

    Favoured cores belong to their kind, whose common maximum is lower.
    """
    tree = with_frequencies(
        eight_cpus(HYBRID_CORES) | PMUS,
        {"0-1": (5_000_000, 1_900_000), "2-3": (5_200_000, 1_900_000), "4-7": (3_900_000, 1_400_000)},
    )
    machine = healthy(tree)
    assert machine.core_kinds == (
        CoreKind("performance", cpuset("0-3"), None, None, 5200, 5000, 400, 1900),
        CoreKind("efficiency", cpuset("4-7"), None, None, 3900, 3900, 400, 1400),
    )
    assert core_labels(machine) == ["performance"] * 2 + ["efficiency"] * 4


def test_low_power_cores() -> None:
    """The cores of the SoC tile are a separate kind, even if cpu_atom lists them too."""
    tree = eight_cpus() | PMUS | {"sys/devices/cpu_lowpower/cpus": b"6-7\n"}
    assert kinds(healthy(tree)) == [("performance", "0-3"), ("efficiency", "4-5"), ("efficiency", "6-7")]


def test_a_hybrid_with_a_single_online_kind() -> None:
    """A hybrid processor whose efficiency cores are disabled in the BIOS is no longer hybrid."""
    tree = eight_cpus() | {"sys/devices/cpu_core/cpus": b"0-7\n"}
    assert kinds(healthy(tree)) == [(None, "0-7")]


@pytest.mark.parametrize("pmu", ["cpu_core", "cpu_atom"])
@pytest.mark.parametrize("damage", [Damage(DELETE), Damage("content", 0, b"x\n"), Damage("deny")])
def test_a_lost_pmu_gets_the_remaining_cpus(pmu: str, damage: Damage) -> None:
    """CPUs that one PMU omits belong to the other, whose file is lost; the loss is reported."""
    machine = found(eight_cpus() | PMUS, damages={f"sys/devices/{pmu}/cpus": damage})
    assert kinds(machine) == [("performance", "0-3"), ("efficiency", "4-7")]
    assert set(paths(machine.problems)) == {f"sys/devices/{pmu}/cpus"}


def test_cpus_that_no_pmu_lists() -> None:
    """If both PMUs exist, a CPU that neither lists has no kind, nor has its core."""
    machine = found(eight_cpus() | PMUS | {"sys/devices/cpu_atom/cpus": b"4-6\n"})
    assert kinds(machine) == [("performance", "0-3"), ("efficiency", "4-6")]
    assert core_labels(machine)[-1] is None
    assert len(machine.problems) == 1


def test_intel_kernels_without_names_of_kinds() -> None:
    """Kernels without names of the kinds: base and highest frequency differ, and the caches show two designs."""
    tree = with_frequencies(eight_cpus(), {"0-3": (2_800_000, 1_400_000), "4-7": (3_000_000, 2_000_000)})
    add_cache(tree, 0, 1, "Data", "32K", ["0", "1", "2", "3"])
    add_cache(tree, 0, 1, "Data", "48K", ["4", "5", "6", "7"])
    assert kinds(healthy(tree)) == [("efficiency", "0-3"), ("performance", "4-7")]


def test_speed_select_is_not_hybrid() -> None:
    """Cores of one design with a higher base frequency are a separate kind, but have no label."""
    tree = with_frequencies(eight_cpus(), {"0-3": (3_700_000, 2_700_000), "4-7": (3_700_000, 2_100_000)})
    add_cache(tree, 0, 1, "Data", "32K", list(SINGLES))
    machine = healthy(tree)
    assert kinds(machine) == [(None, "0-3"), (None, "4-7")]
    assert [kind.base_mhz for kind in machine.core_kinds] == [2700, 2100]
    assert set(core_labels(machine)) == {None}


def test_favoured_cores_are_not_a_kind() -> None:
    """Turbo frequencies within 10% leave the machine with one kind."""
    tree = with_frequencies(eight_cpus(), {"0-5": (4_700_000, 2_600_000), "6-7": (5_000_000, 2_600_000)})
    machine = healthy(tree)
    assert kinds(machine) == [(None, "0-7")]
    assert (machine.core_kinds[0].max_mhz, machine.core_kinds[0].common_max_mhz) == (5000, 4700)


def test_arm() -> None:
    """Each design is a kind. The kind with the lowest capacity is for efficiency, all others are for performance."""
    tree = with_capacities(
        with_parts(eight_cpus(), {"0-2": "d46", "3-4": "d4d", "5-6": "d47", "7": "d4e"}),
        {"0-2": 280, "3-6": 855, "7": 1024},
    )
    machine = healthy(tree)
    assert [(kind.kind, kind.model, kind.capacity) for kind in machine.core_kinds] == [
        ("efficiency", "Cortex-A510", 280),
        ("performance", "Cortex-A715", 855),
        ("performance", "Cortex-A710", 855),
        ("performance", "Cortex-X3", 1024),
    ]


def test_favoured_cores_of_a_design() -> None:
    """As with frequencies, the capacity of a kind is one that all of its CPUs have, as in hwloc."""
    tree = with_parts(eight_cpus(), {"0-3": "d87", "4-7": "d85"})
    machine = healthy(with_capacities(tree, {"0-1": 718, "2-3": 731, "4-5": 997, "6": 1017, "7": 1024}))
    assert [(kind.kind, str(kind.cpus), kind.capacity) for kind in machine.core_kinds] == [
        ("efficiency", "0-3", 718),
        ("performance", "4-7", 997),
    ]


def test_arm_without_cpuinfo() -> None:
    """If /proc/cpuinfo lacks the design, the register of each core has it."""
    tree = with_capacities(eight_cpus(), {"0-3": 446, "4-7": 1024}) | {
        "proc/cpuinfo": cpuinfo({"BogoMIPS": "1"}, range(8))
    }
    midrs = {cpu: "0x00000000410fd034" if cpu < 4 else "0x00000000410fd082" for cpu in range(8)}
    tree |= {f"{CPU}/cpu{cpu}/regs/identification/midr_el1": line(midr) for cpu, midr in midrs.items()}
    assert [(kind.kind, kind.model) for kind in healthy(tree).core_kinds] == [
        ("efficiency", "Cortex-A53"),
        ("performance", "Cortex-A72"),
    ]


def test_capacities_alone() -> None:
    """Without other traits, capacities decide.

    For equal capacities, the base frequency separates kinds but gives no labels.
    """
    tree = with_frequencies(
        with_capacities(eight_cpus(), {"0-3": 234, "4-7": 1024}),
        {"0-1": (3_000_000, 2_500_000), "2-3": (3_000_000, 1_200_000), "4-7": (2_000_000, 1_200_000)},
    )
    assert kinds(healthy(tree)) == [("efficiency", "0-1"), ("efficiency", "2-3"), ("performance", "4-7")]


def test_designs_of_equal_strength() -> None:
    """Two designs that nothing ranks are two kinds without a label."""
    tree = with_parts(eight_cpus(), {"0-3": "d08", "4-7": "d09"})
    assert kinds(healthy(tree)) == [(None, "0-3"), (None, "4-7")]


def test_an_ordinary_server() -> None:
    """There is one kind with its limits, and cores have no label."""
    machine = healthy(machine_tree(SERVER))
    assert machine.core_kinds == (CoreKind(None, SERVER.online, None, None, 3800, 3800, 800, None),)
    assert set(core_labels(machine)) == {None}


def test_a_lost_value_leaves_a_cpu_in_its_kind() -> None:
    """A CPU that lost its capacity belongs to the kind of its design; the loss is reported."""
    tree = with_capacities(with_parts(eight_cpus(), {"0-3": "d46", "4-7": "d4e"}), {"0-3": 280, "4-7": 1024})
    machine = found(tree, damages={f"{CPU}/cpu5/cpu_capacity": Damage("content", 0, b"x\n")})
    assert machine.core_kinds == healthy(tree).core_kinds
    assert len(machine.problems) == 1


def test_a_cpu_of_unknown_kind() -> None:
    """If only the lost value separated the kinds, the CPU and its core have no kind rather than a wrong one."""
    tree = with_capacities(eight_cpus(), {"0-3": 280, "4-7": 1024})
    machine = found(tree, damages={f"{CPU}/cpu5/cpu_capacity": Damage(DELETE)})
    assert kinds(machine) == [("efficiency", "0-3"), ("performance", "4,6-7")]
    assert core_labels(machine)[5] is None


def test_no_cpus() -> None:
    """Without CPUs there are no kinds."""
    assert scan({"x": b""}, (core_kinds.COLLECTOR,)).runs[0].outcome == "no data"


def test_sources() -> None:
    """Every kind names a file of its first CPU."""
    sources = scan(eight_cpus() | PMUS, explain=True).sources
    assert set(sources) >= {"core_kinds.0", "core_kinds.1", "cores.0.kind", "cores.7.kind"}
    assert sources["core_kinds.1"].value == "4-7"


def test_a_rescan_keeps_the_labels() -> None:
    """Cores retain their labels; a change of the boost setting causes the limits to be read again."""
    tree = eight_cpus(HYBRID_CORES) | PMUS | {f"{CPU}/cpufreq/boost": b"1\n"}
    files = MemoryFiles(tree.items())
    scanner = Scanner(files, collectors=ALL)
    first = scanner.scan().machine
    assert scanner.scan().machine is first
    files._add(f"{CPU}/cpufreq/boost", b"0\n")  # pyright: ignore[reportPrivateUsage]
    again = scanner.scan()
    assert [run.collector for run in again.runs if run.outcome == "collected"] == ["core_kinds"]
    assert core_labels(again.machine) == core_labels(first)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["sys/devices/cpu_core/cpus", "sys/devices/cpu_atom/cpus"]
            + [f"{CPU}/cpu{cpu}/{name}" for cpu in range(8) for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq")]
        ),
        st.binary(max_size=12) | st.sampled_from([b"0-7\n", b"1024\n", b"3000000\n", b"4-900\n"]),
        max_size=6,
    )
)
def test_noise(noise: dict[str, bytes]) -> None:
    """Whatever the files contain, kinds are disjoint and consist of online CPUs, and each label is one of the two."""
    machine = found(eight_cpus(HYBRID_CORES) | noise)
    members = [cpu for kind in machine.core_kinds for cpu in kind.cpus]
    assert len(members) == len(set(members))
    assert CpuSet(members) <= machine.cpus.online
    assert {*core_labels(machine)} <= {None, "performance", "efficiency"}
