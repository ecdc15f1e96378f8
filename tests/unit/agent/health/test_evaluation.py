"""Faults begin, last, end and survive a restart; each is attributed to the pods that held the device at the time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.health_stories import (
    DRIVE,
    ETHERNET,
    FIRST,
    FIRST_GPU,
    HCA,
    HEALTHY,
    POD,
    SECOND,
    SECOND_GPU,
    START,
    SWITCH,
    Story,
    gpu,
    xid,
)
from zonewise.health.evaluation import evaluate
from zonewise.health.kernel_events import device_events
from zonewise.health.state import HealthState, decode_state, encode_state
from zonewise.health.types import (
    MIG,
    Clearing,
    CpuReading,
    DeviceEvent,
    DeviceId,
    LinkReading,
    MemoryReading,
    NicReading,
    PodName,
    RasReading,
    Severity,
    Verdict,
)
from zonewise.machine.kernel_log import LogRecord

PORT = HEALTHY.ports["mlx5_0/1"]
LOST_LANES = {"links": {**HEALTHY.links, FIRST: LinkReading(32.0, 8)}}
CONDITIONS: list[tuple[str, dict[str, Any], Verdict]] = [
    ("gpu-lost", gpu(lost=True), Verdict.HARDWARE),
    ("gpu-vanished", {"pci": (HEALTHY.pci or frozenset()) - {FIRST}}, Verdict.HARDWARE),
    ("ecc-uncorrected", gpu(ecc_uncorrected=1), Verdict.HARDWARE),
    ("row-remapping-failed", gpu(remapped_failed=True), Verdict.HARDWARE),
    ("row-remapping-pending", gpu(remapped_pending=True), Verdict.HARDWARE),
    ("row-remapping-pending", gpu(retired_pages_pending=True), Verdict.HARDWARE),
    ("gpu-slowdown", gpu(clocks_event_reasons=0x48), Verdict.HARDWARE),
    ("recovery-action", gpu(recovery_action=2), Verdict.UNKNOWN),
    ("nvml-errors", gpu(errors=("nvmlDeviceGetUUID: unknown error",)), Verdict.DRIVER),
    ("nvlinks-inactive", gpu(nvlinks=12), Verdict.HARDWARE),
    ("pcie-width", LOST_LANES, Verdict.HARDWARE),
    ("pcie-speed", {"links": {**HEALTHY.links, HCA: LinkReading(16.0, 16)}}, Verdict.HARDWARE),
    ("port-down", {"ports": {"mlx5_0/1": PORT._replace(state="DOWN", physical_state="Polling")}}, Verdict.HARDWARE),
    ("port-down", {"ports": {"mlx5_0/1": PORT._replace(state="DOWN", physical_state="Disabled")}}, Verdict.UNKNOWN),
    ("port-down", {"ports": {"mlx5_0/1": PORT._replace(state="INIT")}}, Verdict.UNKNOWN),
    ("port-rate", {"ports": {"mlx5_0/1": PORT._replace(rate_gbps=200.0)}}, Verdict.HARDWARE),
    ("nic-down", {"nics": {"eth0": NicReading(ETHERNET, False, None)}}, Verdict.HARDWARE),
    ("nic-speed", {"nics": {"eth0": NicReading(ETHERNET, True, 10000)}}, Verdict.HARDWARE),
    ("nic-vanished", {"pci": (HEALTHY.pci or frozenset()) - {HCA}}, Verdict.HARDWARE),
    ("edac-uncorrected", {"memory": MemoryReading(uncorrected={"mc0/dimm1": 1})}, Verdict.HARDWARE),
    ("pages-offlined", {"memory": MemoryReading(poisoned=4096)}, Verdict.HARDWARE),
    ("cpus-offline", {"cpus": CpuReading(95, (7,))}, Verdict.UNKNOWN),
    ("memory-missing", {"memory_total": 448 << 30}, Verdict.HARDWARE),
    ("nvme-dead", {"drives": {DRIVE: "dead"}}, Verdict.UNKNOWN),
]


@pytest.mark.parametrize(("rule", "changes", "verdict"), CONDITIONS, ids=lambda value: str(value)[:24])
def test_a_condition_is_raised_and_cleared_over_restarts(rule: str, changes: dict[str, Any], verdict: Verdict) -> None:
    story = Story(restarts=True)
    story.last(360.0, **changes)
    assert story.rules == [rule]
    fault = story.state.active[0]
    assert (fault.sign.verdict, bool(fault.sign.source and fault.sign.basis and fault.sign.evidence)) == (verdict, True)
    cleared = story.last(720.0).cleared
    if fault.sign.clearing is Clearing.QUIET:
        assert story.rules == []
        return
    assert story.rules == [] or cleared == ()  # the driver itself reports no recovery action, or the fault remains


@pytest.mark.parametrize(("rule", "changes", "verdict"), CONDITIONS, ids=lambda value: str(value)[:24])
def test_a_flap_is_not_a_fault_if_the_rule_waits(rule: str, changes: dict[str, Any], verdict: Verdict) -> None:
    story = Story()
    waits = not story.observe(**changes).raised
    story.observe()
    assert waits == (rule not in story.rules)
    assert not waits or story.state.faults == ()


def test_no_baseline_is_learned_from_a_first_boot_with_a_fault() -> None:
    first = evaluate(HealthState(), HEALTHY._replace(**gpu(ecc_uncorrected=3)))
    assert first.state.baseline is None
    assert evaluate(first.state, HEALTHY._replace(silent=frozenset({"nvml"}))).state.baseline is None


def test_a_silent_reader_clears_nothing() -> None:
    story = Story()
    story.observe(**gpu(ecc_uncorrected=1))
    story.last(3600.0, gpus=None, silent=frozenset({"nvml"}))
    assert story.rules == ["ecc-uncorrected"]
    story.last(120.0)
    assert story.rules == []


def test_counters_that_rise_and_counters_that_were_reset() -> None:
    story = Story()
    rising: dict[str, Any] = {"ports": {"mlx5_0/1": PORT._replace(counters={"symbol_error": 2000, "link_downed": 3})}}
    assert {fault.sign.rule for fault in story.observe(**rising).raised} == {
        "symbol-error-rising", "link-downed-rising"
    }  # fmt: skip
    story.last(4 * 3600.0 + 660.0, **rising)
    assert story.rules == []
    story.observe(ports={"mlx5_0/1": PORT._replace(counters={"symbol_error": 0, "link_downed": 0})})
    assert story.rules == []


def test_the_speed_of_an_idle_gpu_is_not_a_fault() -> None:
    slow = {"links": {**HEALTHY.links, FIRST: LinkReading(2.5, 16)}}
    story = Story()
    story.last(600.0, **slow)
    story.last(600.0, **slow, **gpu(clocks_event_reasons=1))
    assert story.rules == []
    story.last(600.0, **slow, **gpu(clocks_event_reasons=4))
    assert story.rules == ["pcie-speed"]


def test_a_gpu_off_the_bus_lasts_until_the_reboot() -> None:
    story = Story(restarts=True)
    story.held = {FIRST_GPU: [POD]}
    story.observe()
    fault = story.observe(events=xid(79, story.now + 1)).raised[0]
    assert (fault.sign.verdict, fault.sign.severity, fault.pods) == (Verdict.HARDWARE, Severity.FAILED, (POD,))
    story.last(4 * 3600.0)
    assert story.rules == ["xid-79"]
    story.observe(60.0, boot_id="boot-2")
    assert story.rules == []


def test_a_driver_fault_lasts_until_the_reset() -> None:
    story = Story()
    no_word = gpu(recovery_action=None, pcie_replays=9)
    story.observe(**no_word)
    story.observe(events=xid(119, story.now + 1), **no_word)
    story.last(3600.0, **no_word)
    assert story.rules == ["xid-119"]
    story.last(120.0, **gpu(recovery_action=None, pcie_replays=0))
    assert story.rules == []


def nvlink(at: float, *severities: str) -> tuple[DeviceEvent, ...]:
    """Return events of one XID whose lines state their severity."""
    lines = [f"NVRM: Xid (PCI:{FIRST[:-2]}): 149, NETIR_LINK_EVT {severity} XC0 i0 Link 00" for severity in severities]
    return tuple(device_events([LogRecord(None, at, line) for line in lines]))


@given(st.lists(st.sampled_from(["Fatal", "Nonfatal"]), min_size=1, max_size=5), st.booleans())
def test_a_harmless_event_does_not_end_a_fatal_one(severities: list[str], at_once: bool) -> None:
    """Without a reset, the fault is as severe as its worst event, in any order, and lasts as long as that."""
    story = Story(restarts=True)
    silent = gpu(recovery_action=None)
    for group in [severities] if at_once else [[severity] for severity in severities]:
        story.observe(5.0, events=nvlink(story.now + 5.0, *group), **silent)
    (fault,) = story.state.active
    is_fatal = "Fatal" in severities
    assert fault.sign.severity is (Severity.FAILED if is_fatal else Severity.DEGRADED)
    assert fault.occurrences == len(severities)
    story.last(7200.0, **silent)
    assert story.rules == (["xid-149"] if is_fatal else [])


@pytest.mark.parametrize("end", ["reset", "reboot", "driver"])
def test_a_harmless_event_after_the_end_of_a_fatal_one_is_harmless(end: str) -> None:
    story = Story()
    silent = gpu(recovery_action=None, pcie_replays=9)
    story.observe(**silent)
    story.observe(events=nvlink(story.now + 1.0, "Fatal"), **silent)
    changes: dict[str, Any] = {
        "reset": gpu(recovery_action=None, pcie_replays=0),
        "reboot": {"boot_id": "boot-2", **gpu(recovery_action=None)},
        "driver": gpu(recovery_action=0, pcie_replays=9),
    }[end]
    for _ in range(30 if end == "driver" else 1):  # the driver's word counts once the event is old
        story.observe(60.0, events=nvlink(story.now + 60.0, "Nonfatal"), **changes)
    (fault,) = story.state.active
    assert fault.sign.severity is Severity.DEGRADED


def test_an_event_belongs_to_the_pod_of_its_time_and_not_to_the_next() -> None:
    story = Story(restarts=True)
    story.held = {FIRST_GPU: [POD], SECOND_GPU: [PodName("team", "other")]}
    story.observe()
    at = story.now
    story.held = {FIRST_GPU: [PodName("team", "next")]}
    story.observe()
    fault = story.observe(events=xid(31, at)).raised[0]
    assert (fault.sign.verdict, fault.sign.severity, fault.pods) == (Verdict.APPLICATION, Severity.NOTE, (POD,))


def test_an_event_from_an_unobserved_time_belongs_to_no_pod() -> None:
    story = Story()
    story.held = {FIRST_GPU: [POD]}
    story.observe()
    down = story.now + 600
    story.held = {FIRST_GPU: [PodName("team", "next")]}
    fault = story.observe(1200.0, events=xid(31, down)).raised
    assert fault == ()  # older than the time for which such a fault lasts
    assert story.observe(events=xid(109, down)).raised[0].pods == ()


def test_one_error_under_different_workloads_is_suspicious() -> None:
    story = Story(restarts=True)
    for pod in ("train-7x2bq", "train-8z4cd", "train-2-9vvxl"):  # retries of one program
        story.held = {FIRST_GPU: [PodName("team", pod)]}
        story.observe(900.0)
        story.observe(events=xid(31, story.now + 1))
    assert story.rules == ["xid-31"]
    story.held = {FIRST_GPU: [PodName("other", "infer-6d4f8b9c7d-x2x4z")]}
    story.observe()
    story.observe(events=xid(31, story.now + 1))
    assert story.rules == ["suspect-xid-31", "xid-31"]
    suspect = story.state.active[0].sign
    assert (suspect.verdict, suspect.evidence) == (Verdict.HARDWARE, ("other/infer", "team/train"))
    story.last(90000.0)
    assert story.rules == []


def test_an_event_from_both_readers_counts_once() -> None:
    story = Story()
    story.observe(events=xid(119, story.now + 1))
    by_nvml = xid(119, story.now + 1.5)[0]._replace(reader="nvml-events")
    assert story.observe(2.0, events=(by_nvml,)).repeated == ()
    assert story.observe(60.0, events=(by_nvml._replace(at=story.now + 60),)).repeated


ANYTHING = st.sampled_from([changes for _, changes, _ in CONDITIONS])
NOTHING: dict[str, Any] = {}
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0, 60.0, 700.0, 90000.0]),
        st.one_of(
            st.just(NOTHING), ANYTHING, st.sampled_from([31, 79, 119, 999]), st.sampled_from(["boot-2", "silent"])
        ),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_restart_between_any_two_observations_changes_nothing(steps: list[tuple[float, Any]]) -> None:
    """A second evaluation of the same observation raises nothing and clears nothing that was just raised."""
    always, never = Story(restarts=True), Story()
    for after, step in steps:
        changes: dict[str, Any] = dict(step) if isinstance(step, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
        changes = {"events": xid(step, always.now + after)} if isinstance(step, int) else changes
        changes = {"boot_id": step} if step == "boot-2" else changes
        changes = {"gpus": None, "silent": frozenset({"nvml"})} if step == "silent" else changes
        evaluations = [story.observe(after, **changes) for story in (always, never)]
        assert evaluations[0] == evaluations[1]
        again = evaluate(always.state, HEALTHY._replace(time=always.now, **{**changes, "events": ()}))
        assert again.raised == again.repeated == ()
        assert {fault.key for fault in again.cleared}.isdisjoint(fault.key for fault in evaluations[0].raised)
        assert decode_state(encode_state(always.state)) == always.state
    assert always.state.time >= START


def test_xids_of_mig_devices_hit_only_the_pods_that_hold_these() -> None:
    """All pods hold one GPU; two of its MIG devices have an error in one observation."""
    story = Story()
    pods = [PodName("team", f"pod-{name}") for name in "abc"]
    migs = {DeviceId(MIG, f"{FIRST}/{number}/0"): [pod] for number, pod in enumerate(pods)}
    story.held = {FIRST_GPU: pods, **migs}
    story.observe()
    [event] = xid(31, story.now)
    for _ in range(2):
        story.observe(events=(event._replace(instance="0"), event._replace(instance="2/0")))
        assert [fault.pods for fault in story.state.active] == [(pods[0], pods[2])]
    assert story.state.hits == ()


AMD = "amdgpu 0000:3b:00.0: amdgpu: "
ATHUB, FAILED, SUCCEEDED = (
    AMD + text
    for text in (
        "uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
        "GPU reset(1) failed",
        "GPU reset(2) succeeded!",
    )
)


def logged(at: float, *lines: str) -> dict[str, Any]:
    return {"events": tuple(device_events(LogRecord(None, at, line) for line in lines))}


@pytest.mark.parametrize("together", [False, True])
def test_a_reset_by_the_driver_ends_what_lasts_until_a_reset(together: bool) -> None:
    """It may be logged in the same moment as the fault, and it ends no fault of another GPU."""
    story = Story(restarts=True)
    story.observe(gpus=None, **logged(story.now, ATHUB.replace(FIRST, SECOND), ATHUB, FAILED))
    if together:
        story.observe(gpus=None, **logged(story.now, ATHUB, FAILED, SUCCEEDED))
    else:
        assert story.last(7200.0, gpus=None).state.active
        assert set(story.rules) == {"ras-fatal", "reset-failed"}
        story.observe(gpus=None, **logged(story.now, SUCCEEDED))
    story.last(1200.0, gpus=None)
    assert [(fault.sign.device.name, fault.sign.rule) for fault in story.state.active] == [(SECOND, "ras-fatal")]


def test_a_fault_after_a_reset_is_not_ended_by_it() -> None:
    story = Story(restarts=True)
    story.observe(gpus=None, **logged(story.now, SUCCEEDED, ATHUB))
    story.last(7200.0, gpus=None)
    assert story.rules == ["ras-fatal"]


def test_the_link_of_a_switch() -> None:
    """It is a fault of the fabric if it loses lanes; a switch on the card of an idle GPU lowers its speed."""
    story = Story()
    story.last(120.0, links={**HEALTHY.links, SWITCH: LinkReading(2.5, 16)})
    assert story.rules == []
    story.last(120.0, links={**HEALTHY.links, SWITCH: LinkReading(32.0, 8)})
    [fault] = story.state.active
    assert (str(fault.sign.device), fault.sign.rule) == (f"node pci {SWITCH}", "pcie-width")
    assert fault.sign.evidence == ("x8 instead of x16",)


def test_a_link_that_was_never_as_good_as_both_ends_support() -> None:
    """It is a note, and part of the baseline; a link that was better is compared with the baseline."""
    best = {"attainable": dict.fromkeys((FIRST, HCA), LinkReading(32.0, 16))}
    for link, rule in (
        (LinkReading(32.0, 8), "pcie-width-below-maximum"),
        (LinkReading(16.0, 16), "pcie-speed-below-maximum"),
    ):
        story = Story()
        story.state = HealthState()
        story.last(120.0, links={HCA: link}, **best)
        assert [(str(fault.sign.device), fault.sign.rule) for fault in story.state.active] == [(f"nic {HCA}", rule)]
        assert story.state.active[0].sign.severity is Severity.NOTE
        story.last(120.0, links={HCA: LinkReading(32.0, 16)}, **best)
        assert story.rules == []
        story.last(120.0, links={HCA: link}, **best)
        assert story.rules == [rule.removesuffix("-below-maximum")]


def test_the_note_of_a_link_does_not_depend_on_its_speed() -> None:
    """A GPU raises and lowers the speed of its link with its load."""
    story = Story()
    story.state = HealthState()
    for speed in (32.0, 2.5, 32.0):
        story.last(600.0, links={FIRST: LinkReading(speed, 8)}, attainable={FIRST: LinkReading(32.0, 16)})
        assert story.rules == ["pcie-width-below-maximum"]


def test_an_idle_gpu_is_not_called_slow() -> None:
    story = Story()
    story.state = HealthState()
    story.last(120.0, links={FIRST: LinkReading(2.5, 16)}, attainable={FIRST: LinkReading(32.0, 16)})
    assert story.rules == []


def test_errors_that_an_amd_gpu_counts() -> None:
    """Uncorrected ones are a fault until the driver is loaded again; corrected ones a note if there are many."""
    story = Story(restarts=True)
    story.observe(ras={FIRST: RasReading({"umc": 999, "gfx": 0}, {"umc": 0, "gfx": 0})})
    assert story.rules == []
    story.observe(ras={FIRST: RasReading({"umc": 1000, "gfx": 0}, {"umc": 0, "gfx": 2})})
    signs = {fault.sign.rule: fault.sign for fault in story.state.active}
    assert set(signs) == {"ras-uncorrected", "ras-corrected-rising"}
    assert signs["ras-uncorrected"].evidence == ("gfx: 2 uncorrected errors",)
    assert signs["ras-corrected-rising"].evidence == ("umc: 1000 within an hour",)
    story.last(7200.0)
    assert story.rules == []


@pytest.mark.parametrize(
    ("known", "now", "expected"),
    [
        ("machine-1", "machine-2", []),
        ("machine-1", "machine-1", ["gpu-vanished"]),
        ("machine-1", "", ["gpu-vanished"]),
        ("", "machine-2", ["gpu-vanished"]),
    ],
)
def test_the_baseline_of_another_machine_is_not_expected(known: str, now: str, expected: list[str]) -> None:
    """A machine whose identifier is unknown, now or before, may be the same one."""
    story = Story(restarts=True)
    story.state = story.state._replace(machine_id=known)
    healthy = HEALTHY.gpus or {}
    without: dict[str, Any] = {"gpus": {SECOND: healthy[SECOND]}, "pci": frozenset({SECOND, HCA, ETHERNET})}
    story.last(120.0, machine_id=now, gpu_addresses=frozenset({SECOND}), **without)
    assert story.rules == expected
    assert story.state.machine_id == (now or known)
