"""The medium of memory: from the DAX bus, or from bandwidths by hwloc's rule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise.machine.collectors.memory.zone_access import nearest_cpus
from zonewise.machine.collectors.memory.zone_medium import bandwidth, latency, media
from zonewise.machine.model.host import DaxDevice
from zonewise.machine.model.zone import Access, Zone
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

MEDIA = ("HBM", "DRAM")


def zone(number: int, speed: int | None = None, *, delay: int | None = None, kind: str = "cpu") -> Zone:
    """Return a zone whose best access has a bandwidth (MB/s) and a latency (ns)."""
    access = Access(0, (0,), speed, speed, delay, delay)
    known = (access,) if speed is not None or delay is not None else ()
    return Zone(number, EMPTY, EMPTY, 1, {}, {}, kind, accesses=known)


def dax(medium: str, *, cxl: bool = False) -> DaxDevice:
    """Return a DAX device that has become a zone."""
    return DaxDevice("dax0.0", 1, 1, "kmem", medium, cxl=cxl)


def test_a_single_speed_decides_nothing() -> None:
    """If all memory is alike, it may be DRAM or HBM: the medium is unknown, and nothing is reported."""
    assert media([zone(0, 1000), zone(1, 1050)], {}) == {}
    assert media([zone(0), zone(1)], {}) == {}


def test_more_than_twice_the_bandwidth_is_hbm() -> None:
    """If one tier has more than twice the bandwidth of the other, they are HBM and DRAM; at exactly twice, unknown."""
    assert media([zone(0, 1000), zone(1, 2001)], {}) == {0: "DRAM", 1: "HBM"}
    assert media([zone(0, 2001), zone(1, 1000)], {}) == {0: "HBM", 1: "DRAM"}
    assert media([zone(0, 1000), zone(1, 2000)], {}) == {}


def test_three_speeds_decide_nothing() -> None:
    """The media of three tiers are unknown."""
    assert media([zone(0, 1000), zone(1, 2500), zone(2, 9000)], {}) == {}


def test_tiers_by_latency() -> None:
    """Memory with one bandwidth and two latencies has two tiers, which bandwidth does not distinguish."""
    assert media([zone(0, 1000, delay=100), zone(1, 1000, delay=200)], {}) == {}


def test_specific_purpose_memory_is_hbm_if_it_is_fast() -> None:
    """Memory set aside by the firmware is HBM beside slower memory; otherwise it has only the firmware's name."""
    assert media([zone(0, 1000), zone(1, 10000)], {1: dax("SPM")}) == {0: "DRAM", 1: "HBM"}
    assert media([zone(0, 1000), zone(1, 1000)], {1: dax("SPM")}) == {1: "SPM"}
    assert media([zone(0), zone(1)], {1: dax("SPM")}) == {1: "SPM"}


def test_persistent_memory_and_cxl_by_their_bus() -> None:
    """The DAX bus names their medium, whatever the speeds; persistent memory behind CXL is persistent."""
    assert media([zone(0, 1000), zone(1, 10)], {1: dax("NVM")}) == {1: "NVM"}
    assert media([zone(0, 1000), zone(1, 5000)], {1: dax("SPM", cxl=True)}) == {1: "CXL"}
    assert media([zone(0, 1000), zone(1, 10)], {1: dax("NVM", cxl=True)}) == {1: "NVM"}


def test_the_memory_of_gpus_is_not_a_tier_of_the_machine() -> None:
    """However fast it is, it belongs to the GPU."""
    assert media([zone(0, 1000), zone(1, 9000, kind="device")], {}) == {1: "GPU"}


def test_means() -> None:
    """Bandwidth and latency are the mean of both directions, and unknown if one direction is unknown."""
    both = zone(0)._replace(accesses=(Access(0, (), 10, 21, 30, 51),))
    assert (bandwidth(both), latency(both)) == (15, 40)
    single = zone(0)._replace(accesses=(Access(0, (), 10, None, None, 51),))
    assert (bandwidth(single), latency(single)) == (None, None)


@given(st.lists(st.one_of(st.none(), st.integers(1, 1 << 30)), min_size=1, max_size=8))
def test_order_changes_nothing(speeds: list[int | None]) -> None:
    """The order of zones does not matter, HBM is faster than DRAM, and a zone without a speed is neither."""
    zones = [zone(number, speed) for number, speed in enumerate(speeds)]
    actual = media(zones, {})
    assert media(zones[::-1], {}) == actual
    by_medium = {
        expected: [speeds[number] for number, medium in actual.items() if medium == expected] for expected in MEDIA
    }
    fast, slow = ([speed for speed in by_medium[name] if speed is not None] for name in MEDIA)
    assert len(fast) + len(slow) == len(actual)
    assert not actual or min(fast) > 2 * max(slow)


# --- the nearest CPUs


CPUS = {0: CpuSet((0, 1)), 1: CpuSet((2, 3))}


def test_initiators_without_cpus_are_ignored() -> None:
    """A device as an initiator does not determine the nearest zone; distances then decide."""
    actual, rule = nearest_cpus(5, CPUS, [Access(0, (7,))], {0: 30, 1: 20, 5: 10})
    assert str(actual) == "2-3"
    assert "distance" in rule


def test_several_initiators() -> None:
    """The CPUs of all the best initiators are near."""
    assert str(nearest_cpus(5, CPUS, [Access(0, (0, 1))], {})[0]) == "0-3"


@given(st.dictionaries(st.integers(0, 3), st.integers(10, 255)))
def test_the_nearest_are_at_the_smallest_distance(distances: dict[int, int]) -> None:
    """Only zones with CPUs count, and of these only the nearest."""
    actual, _ = nearest_cpus(9, CPUS, [], distances)
    known = {node: distance for node, distance in distances.items() if node in CPUS}
    expected = EMPTY
    for node, distance in known.items():
        if distance == min(known.values()):
            expected = expected | CPUS[node]
    assert actual == expected
