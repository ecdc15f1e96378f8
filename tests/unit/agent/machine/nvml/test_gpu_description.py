"""The meaning of NVML's numbers for a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.nvml_results import stub_twin
from zonewise.machine.model.gpu import Fabric, Gpu, NvLinkPeer
from zonewise.machine.nvml.facts import NvmlFabric, NvmlFacts, NvmlGpu, NvmlLink, NvmlMigDevice
from zonewise.machine.nvml.gpu_description import describe_fabric, describe_gpu
from zonewise.machine.nvml.queries import collect_nvml

ADDRESS = "0000:3b:00.0"
PLAIN = Gpu(ADDRESS, "GPU-proc", "nvidia", "proc", 7, 0, "nvidia", None, None, None, driver_version="1.2", vbios="v")
CLUSTER = "0f000000-0000-0000-0000-000000000001"
ZEROS = "00000000-0000-0000-0000-000000000000"


def gpu(nvml_facts: NvmlGpu, **facts: Any) -> Gpu:
    return describe_gpu(PLAIN, nvml_facts, NvmlFacts(**facts))


def test_a_complete_gpu() -> None:
    """Every fact of a GPU with a result for every query is described."""
    facts = collect_nvml(stub_twin())
    described = describe_gpu(PLAIN, facts.gpus[0], facts)
    assert described.uuid == "GPU-00000000-0000-0000-0000-000000000000"
    assert (described.model, described.memory) == ("Stub S1", 85520809984)
    assert (described.driver_version, described.cuda_version, described.firmware) == ("570.86.10", "12.8", "570.86.10")
    assert (described.architecture, described.compute_capability) == ("hopper", "9.0")
    assert (described.number, described.minor, described.module_id, described.persistence) == (0, 0, 2, True)
    assert (described.virtualization, described.addressing, described.board) == ("passthrough", None, None)
    assert described.nvlinks == (NvLinkPeer(None, "switch", 1, 4), NvLinkPeer("10000:3b:00.0", "gpu", 2, 4))
    assert described.fabric == Fabric(
        "completed", "success", "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff", 32766, attached=True,
        health="limited capacity", faults=("degraded bandwidth",),
    )  # fmt: skip
    health = described.health
    assert health is not None
    assert (health.ecc_enabled, health.ecc_corrected, health.ecc_lifetime_uncorrected) == (True, 2**40 + 1, 2**40 + 4)
    assert (health.remapped_correctable, health.remapped_uncorrectable) == (3, 4)
    assert (health.remapping_pending, health.remapping_failed, health.retired_pages_pending) == (True, False, None)
    assert health.throttle_reasons == ("hw slowdown", "hw thermal")
    assert (health.recovery_action, health.pcie_replays) == ("drain and reset", 150)


def test_facts_that_nvml_lacks_are_unchanged() -> None:
    """/proc may have facts that NVML lacks; a fact without any source is None, never 0 or "none"."""
    described = gpu(NvmlGpu(3))
    assert (described.uuid, described.model, described.memory, described.driver_version, described.vbios) == (
        "GPU-proc", "proc", 7, "1.2", "v",
    )  # fmt: skip
    assert described.health is not None
    nvml_facts = {name for name, value in described.health._asdict().items() if value not in (None, ())}
    assert nvml_facts == set()
    unknown = (
        described.mig,
        described.fabric,
        described.virtualization,
        described.addressing,
        described.persistence,
        described.cuda_version,
    )
    assert set(unknown) == {None}
    assert (described.architecture, described.state, described.nvlinks) == (None, None, ())


@pytest.mark.parametrize(
    ("field", "number", "meaning"),
    [
        ("virtualization", 0, "none"),
        ("virtualization", 2, "vgpu"),
        ("virtualization", 9, None),
        ("addressing", 0, "none"),
        ("addressing", 2, "ats"),
        ("architecture", 8, "ada-lovelace"),
        ("architecture", 0xFFFFFFFF, None),
    ],
)
def test_numbers_have_names(field: str, number: int, meaning: str | None) -> None:
    """Known to be none is not the same as unknown; an unknown number is unknown."""
    numbers: dict[str, Any] = {field: number}
    nvml_facts = NvmlGpu(0, **numbers)
    assert getattr(gpu(nvml_facts), field) == meaning


@pytest.mark.parametrize(("action", "text"), [(0, "none"), (2, "reboot node"), (7, "reboot system"), (99, "action 99")])
def test_recovery_actions(action: int, text: str) -> None:
    """An unknown remedy of the driver is shown as its number, never as "none"."""
    health = gpu(NvmlGpu(0, recovery_action=action)).health
    assert health is not None
    assert health.recovery_action == text


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [(0, ()), (0x1, ()), (0x1 | 0x2 | 0x10 | 0x100, ()), (0x84, ("sw power cap", "hw power brake")), (1 << 40, ())],
)
def test_throttle_reasons(bits: int, reasons: tuple[str, ...]) -> None:
    """Idling and the user's own settings are not reasons for throttling."""
    health = gpu(NvmlGpu(0, clocks_event_reasons=bits)).health
    assert health is not None
    assert health.throttle_reasons == reasons


@pytest.mark.parametrize(("number", "text"), [(12040, "12.4"), (13000, "13.0"), (11080, "11.8"), (None, None)])
def test_cuda_versions(number: int | None, text: str | None) -> None:
    """The number is 1000 times the major plus 10 times the minor version."""
    assert gpu(NvmlGpu(0), cuda_version=number).cuda_version == text


def test_a_lost_gpu_is_marked_lost() -> None:
    """The GPU has its state and its failed query."""
    described = gpu(NvmlGpu(0, lost=True, faults=("nvmlDeviceGetUUID: GPU is lost",)))
    assert described.state == "lost"
    assert described.health is not None
    assert described.health.faults == ("nvmlDeviceGetUUID: GPU is lost",)


# --- NVLink


def test_links_to_a_peer_are_grouped() -> None:
    """18 links to a switch that a guest cannot name form one group; a link that is down is not counted."""
    links = tuple(NvmlLink(number, True, 7, 2) for number in range(18))
    described = gpu(NvmlGpu(0, links=(*links, NvmlLink(18, active=False))))
    assert described.nvlinks == (NvLinkPeer(None, "switch", 18, 5),)


@pytest.mark.parametrize(
    ("version", "generation"),
    [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 5), (8, 6), (0, None), (99, None), (None, None)],
)
def test_the_version_of_a_link_is_an_enumeration(version: int | None, generation: int | None) -> None:
    """An A100 reports 5 but has NVLink 3."""
    assert gpu(NvmlGpu(0, links=(NvmlLink(0, True, version),))).nvlinks[0].version == generation


@given(
    st.lists(
        st.builds(
            NvmlLink, st.integers(0, 35), st.booleans(), st.integers(0, 9),
            st.integers(0, 3), st.sampled_from([None, "0000:01:00.0", "0000:02:00.0"]),
        )
    )
)  # fmt: skip
def test_no_link_is_lost_or_counted_twice(links: list[NvmlLink]) -> None:
    """Grouping preserves the number of active links."""
    described = gpu(NvmlGpu(0, links=tuple(links))).nvlinks
    assert sum(peer.links for peer in described) == sum(link.active for link in links)
    assert list(described) == sorted(described, key=lambda peer: (peer.address or "", peer.kind, peer.version or 0))


# --- fabric


@pytest.mark.parametrize(
    ("nvml_facts", "meant"),
    [
        (NvmlFabric(3, 0, CLUSTER, 2), Fabric("completed", "success", CLUSTER, 2, attached=True)),
        (NvmlFabric(3, 0, ZEROS, 0), Fabric("completed", "success", None, 0, attached=False)),
        (NvmlFabric(3, 999, CLUSTER, 2), Fabric("completed", "unknown error", CLUSTER, 2, attached=False)),
        (NvmlFabric(2, 0, CLUSTER, 2), Fabric("in progress", None, CLUSTER, None, attached=False)),
        (NvmlFabric(1, 0, ZEROS, 0), Fabric("not started", None, None, None)),
        (NvmlFabric(0, 0, ZEROS, 0), Fabric("not supported", None, None, None)),
        (NvmlFabric(9, 0, ZEROS, 0), Fabric("state 9", None, None, None)),
    ],
)
def test_fabric_states(nvml_facts: NvmlFabric, meant: Fabric) -> None:
    """A GPU is attached if its registration was completed successfully in a cluster."""
    assert describe_fabric(nvml_facts) == meant


@pytest.mark.parametrize(
    ("mask", "faults"),
    [
        (None, None),
        (0, None),
        (0b10, ()),
        (0b01, ("degraded bandwidth",)),
        (0b01 << 2 | 0b01 << 4, ("route recovery", "route unhealthy")),
        (0b10 << 6 | 1 << 8, ()),
        (4 << 8, ("incorrect configuration: no partition",)),
        (15 << 8, ("incorrect configuration: 15",)),
    ],
)
def test_fabric_faults(mask: int | None, faults: tuple[str, ...] | None) -> None:
    """Each fault has two bits: not supported, true, false. If nothing is supported, the health is unknown."""
    assert describe_fabric(NvmlFabric(3, 0, CLUSTER, 1, mask)).faults == faults


# --- MIG


@pytest.mark.parametrize(("mode", "pending"), [((0, 0), False), ((0, 1), True)])
def test_mig_that_is_disabled(mode: tuple[int, int], pending: bool) -> None:
    """The mode after the next reset may be another."""
    mig = gpu(NvmlGpu(0, mig_mode=mode)).mig
    assert mig is not None
    assert (mig.enabled, mig.pending, mig.instances) == (False, pending, ())


GIB_40, GIB_80 = 40960 << 20, 81559 << 20


@pytest.mark.parametrize(
    ("memory", "device", "profile"),
    [
        (GIB_80, NvmlMigDevice(name="NVIDIA H100 80GB HBM3 MIG 1g.10gb+me"), "1g.10gb+me"),
        (GIB_80, NvmlMigDevice(gpu_slices=1, compute_slices=1, memory=9856 << 20), "1g.10gb"),
        (GIB_80, NvmlMigDevice(gpu_slices=1, compute_slices=1, memory=19968 << 20), "1g.20gb"),
        (GIB_80, NvmlMigDevice(gpu_slices=3, compute_slices=3, memory=40448 << 20), "3g.40gb"),
        (GIB_80, NvmlMigDevice(gpu_slices=3, compute_slices=1, memory=40448 << 20), "1c.3g.40gb"),
        (GIB_80, NvmlMigDevice(gpu_slices=7, compute_slices=7, memory=80896 << 20), "7g.80gb"),
        (GIB_40, NvmlMigDevice(gpu_slices=1, compute_slices=1, memory=4864 << 20), "1g.5gb"),
        (GIB_40, NvmlMigDevice(gpu_slices=2, compute_slices=2, memory=9856 << 20), "2g.10gb"),
        (GIB_40, NvmlMigDevice(gpu_slices=2, memory=9856 << 20), None),
        (None, NvmlMigDevice(gpu_slices=2, compute_slices=2, memory=9856 << 20), None),
        (GIB_40, NvmlMigDevice(name="NVIDIA A100-SXM4-40GB"), None),
    ],
)
def test_mig_profiles(memory: int | None, device: NvmlMigDevice, profile: str | None) -> None:
    """The driver's own name is used, else the slices and the memory as NVIDIA rounds it, else it is unknown."""
    mig = gpu(NvmlGpu(0, memory=memory, mig_mode=(1, 1), mig_devices=(device,))).mig
    assert mig is not None
    assert mig.instances[0].profile == profile


def test_mig_instances_keep_their_parts() -> None:
    """Each engine has its own number."""
    facts = collect_nvml(stub_twin())
    mig = describe_gpu(PLAIN, facts.gpus[0], facts).mig
    assert mig is not None
    assert mig.enabled
    assert not mig.pending
    first = mig.instances[0]
    assert (first.uuid, first.profile) == ("MIG-00000000-0000-0000-0000-000000000001", "1g.10gb")
    assert (first.multiprocessors, first.gpu_slices, first.compute_slices) == (16, 1, 1)
    engines = (first.copy_engines, first.decoders, first.encoders, first.jpeg_engines, first.ofa_engines)
    assert engines == (1, 2, 3, 4, 5)
