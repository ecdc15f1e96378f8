"""Lines of the kernel log as drivers print them, in both formats of the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.health.event_rules import event_sign
from zonewise.health.kernel_events import device_events
from zonewise.health.types import Severity, Verdict
from zonewise.machine.kernel_log import RELEVANT, parse_records

LINES = [
    ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.", "gpu 0000:3b:00.0", "xid-79"),
    ("NVRM: Xid (0000:03:00): 31, Ch 00000010, engmask 00000101", "gpu 0000:03:00.0", "xid-31"),
    ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=4242, name=python, Contained: SM", "gpu 0000:3b:00.0", "xid-94"),
    ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 31, pid=4242, name=python, Ch 00000008", "gpu 0000:3b:00.0",
     "xid-31"),
    ("NVRM: Xid (PCI:00000008:06:00): 149, NETIR_LINK_EVT  Nonfatal  XC0", "gpu 0008:06:00.0", "xid-149"),
    ("NVRM: GPU 0000:07:00.0: GPU has fallen off the bus.", "gpu 0000:07:00.0", "xid-79"),
    ("NVRM: The NVIDIA GPU 0000:af:00.0 (PCI ID: 10de:1db6)\tinstalled in this system has fallen off the bus and",
     "gpu 0000:af:00.0", "xid-79"),
    ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0xffff:1482)", "gpu 0000:3b:00.0", "init-failed"),
    ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32", "node nvswitch 0000:c1:00.0",
     "sxid-12028"),
    ("nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)",
     "gpu 0000:3b:00.0", "pcie-uncorrected"),
    ("pcieport 0000:3a:00.0: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
     "node pci 0000:3a:00.0", "pcie-uncorrected"),
    ("nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)",
     "gpu 0000:3b:00.0", "pcie-uncorrected"),
    ("amdgpu 0000:83:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:40 vmid:8 pasid:32776, for process a",
     "gpu 0000:83:00.0", "page-fault"),
    ("amdgpu 0000:0a:00.0: [mmhub0] retry page fault (src_id:0 ring:0 vmid:1 pasid:32769, for process X pid 4118",
     "gpu 0000:0a:00.0", "page-fault"),
    ("amdgpu 0000:0a:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:0 vmid:0 pasid:0, for process  pid 0 thread  pid",
     "gpu 0000:0a:00.0", "page-fault"),
    ("amdgpu 0000:e3:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
     "gpu 0000:e3:00.0", "ras-fatal"),
    ("amdgpu 0000:e3:00.0: amdgpu: {7}uncorrectable hardware error (ERREVENT_ATHUB_INTERRUPT) detected!",
     "gpu 0000:e3:00.0", "ras-fatal"),
    ("amdgpu 0000:06:00.0: amdgpu: GPU reset(2) succeeded!", "gpu 0000:06:00.0", "gpu-reset"),
    ("amdgpu 0000:06:00.0: amdgpu: GPU reset(2) failed", "gpu 0000:06:00.0", "reset-failed"),
    ("xe 0000:0c:00.0: [drm] device wedged, needs recovery", "gpu 0000:0c:00.0", "wedged"),
    ("mlx5_core 0000:5e:00.0: poll_health:817: device's health compromised - reached miss count",
     "nic 0000:5e:00.0", "nic-firmware"),
    ("Memory failure: 0x1f3a5: recovery action for dirty LRU page: Recovered", "memory", "memory-failure"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "device", "rule"), LINES)
def test_a_line_is_an_event_of_a_device(line: str, device: str, rule: str) -> None:
    for text, at in (
        (f"4,812,1500000,-;{line}\n SUBSYSTEM=pci\n", 101.5),
        (f"[    1.500000] {line}", 101.5),
        (line, None),
    ):
        (event,) = device_events(parse_records(text, 100.0))
        sign = event_sign(event, 200.0)
        assert (str(event.device), sign.rule, event.at) == (device, rule, at)
        assert sign.evidence == (line,)


@pytest.mark.parametrize(
    ("attribution", "instance"), [("", ""), (" GPU-I:05", "5"), (" GPU-I:05 GPU-CI:00", "5/0"), (" GPU-I:13", "13")]
)
def test_an_xid_of_a_mig_device_names_its_instance(attribution: str, instance: str) -> None:
    line = f"NVRM: Xid (PCI:0000:3b:00{attribution}): 31, pid=4242, name=python, Ch 00000008"
    (event,) = device_events(parse_records(line, None))
    assert (event.instance, event_sign(event, 1.0).instance) == (instance, instance)


@pytest.mark.parametrize(("line", "_", "rule"), LINES)
def test_the_line_of_an_event_is_captured(line: str, _: str, rule: str) -> None:
    assert RELEVANT.search(line), rule


@pytest.mark.parametrize(("pasid", "verdict"), [(32776, Verdict.APPLICATION), (0, Verdict.DRIVER)])
def test_a_page_fault_without_a_process_is_the_drivers(pasid: int, verdict: Verdict) -> None:
    line = f"amdgpu 0000:83:00.0: [gfxhub0] no-retry page fault (src_id:0 ring:40 vmid:8 pasid:{pasid}, for process"
    (event,) = device_events(parse_records(line, None))
    assert (event_sign(event, 1.0).verdict, event_sign(event, 1.0).severity) == (verdict, Severity.NOTE)


@pytest.mark.parametrize("word", ["Uncorrected", "Uncorrectable"])
@pytest.mark.parametrize(("kind", "severity"), [("Fatal", Severity.FAILED), ("Non-Fatal", Severity.DEGRADED)])
def test_the_severity_of_an_error_in_old_and_new_kernels(word: str, kind: str, severity: Severity) -> None:
    line = f"nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity={word} ({kind}), type=Transaction Layer"
    (event,) = device_events(parse_records(line, None))
    assert event_sign(event, 1.0).severity is severity


def test_the_name_of_a_program_does_not_make_an_error_harmless() -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=non-fatal, GPU has fallen off the bus."
    (event,) = device_events(parse_records(line, None))
    assert event_sign(event, 1.0).severity is Severity.FAILED


@pytest.mark.parametrize(("word", "severity"), [("Fatal", Severity.FAILED), ("Non-fatal", Severity.NOTE)])
def test_the_severity_of_an_nvswitch_error(word: str, severity: Severity) -> None:
    line = f"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, {word}, Link 30 LTSSM Fault Up"
    (event,) = device_events(parse_records(line, None))
    assert event_sign(event, 1.0).severity is severity


@pytest.mark.parametrize("line", [
    "xe 0000:0c:00.0: [drm] device wedged, but recovered through reset",
    "amdgpu 0000:04:00.0: [drm] device wedged, but no recovery needed",
    "amdgpu 0000:0b:00.0: amdgpu: no uncorrectable hardware errors detected in umc block",
    "NVRM: GPU at PCI:0000:3b:00: GPU-8f3d", "NVRM: loading NVIDIA UNIX Open Kernel Module",
    "nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
    "pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0", "usb 1-1: new device", "", ";",
    "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Severity 0 Engine instance 44 Sub-engine instance 00",
    "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Data {0x0000002b, 0x0000002b, 0x00000000, 0x0000002b}",
])  # fmt: skip
def test_other_lines_are_not_events(line: str) -> None:
    assert list(device_events(parse_records(line, None))) == []


@given(st.text(), st.integers(-5, 10**30))
def test_no_line_raises(text: str, code: int) -> None:
    line = f"NVRM: Xid (PCI:0000:3b:00): {code}{text}"
    for event in device_events(parse_records(f"{line}\n6,{code},{code},-;{text}", 0.0)):
        assert event_sign(event, 1.0).rule
