"""What the readers observe on a server, on changed trees and in simulated NVML, and the resulting faults."""

from __future__ import annotations

from typing import Any

import pytest

from support.nvml_results import stub_twin
from support.trees import SYSTEM, Contents, line, server_tree
from zonewise.health.evaluation import evaluate
from zonewise.health.readers.nvml_gpus import gpu_readings
from zonewise.health.readers.observe import observe
from zonewise.health.state import HealthState
from zonewise.health.types import HardwareObservation, LinkReading
from zonewise.machine.discover import discover
from zonewise.machine.files import MemoryFiles
from zonewise.machine.nvml.backend import GPU_IS_LOST, NvmlError
from zonewise.machine.nvml.facts import NvmlFacts, NvmlGpu, NvmlLink
from zonewise.machine.nvml.queries import collect_nvml

GPU_ADDRESS, HCA = "0000:13:00.0", "0000:14:00.0"
FUNCTION = "sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:{}/"
GPU_PATH = FUNCTION.format("00.0") + GPU_ADDRESS
SWITCH = "sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"
PORT = FUNCTION.format("01.0") + f"{HCA}/infiniband/mlx5_0/ports/1"
DISK = "sys/devices/pci0000:10/0000:10:02.0/0000:15:00.0/nvme/nvme0"
NETDEV = FUNCTION.format("01.0") + f"{HCA}/net/ib0"
MC = f"{SYSTEM}/edac/mc/mc0"
FACTS = NvmlFacts(gpus=tuple(
    NvmlGpu(number, address, f"GPU-{number}", links=(NvmlLink(0, active=True), NvmlLink(1, active=True)))
    for number, address in enumerate((GPU_ADDRESS, "0000:83:00.0"))
))  # fmt: skip
SERVER: Contents = {
    **server_tree(),
    "proc/sys/kernel/random/boot_id": line("11111111-2222"),
    "proc/meminfo": b"MemTotal:       16777216 kB\nHardwareCorrupted:     0 kB\n",
    f"{NETDEV}/carrier": line(1),
    f"{NETDEV}/carrier_down_count": line(2),
    f"{PORT}/counters/symbol_error": line(0),
    f"{SYSTEM}/cpu/cpu0/thermal_throttle/package_throttle_count": line(3),
    "sys/class/nvme/nvme0": f"../../{DISK.removeprefix('sys/')}",
    f"{DISK}/state": line("live"),
    f"{MC}/ce_count": line(0),
    f"{MC}/ue_count": line(0),
    f"{MC}/ce_noinfo_count": line(0),
    f"{MC}/ue_noinfo_count": line(0),
    f"{MC}/dimm0/dimm_ce_count": line(0),
    f"{MC}/dimm0/dimm_ue_count": line(0),
    f"{MC}/dimm0/dimm_label": line("CPU_SrcID#0_Ha#0_Chan#0_DIMM#0"),
}
DIMM = "mc0/dimm0 (CPU_SrcID#0_Ha#0_Chan#0_DIMM#0)"


def look(changes: dict[str, Any], facts: NvmlFacts | None = FACTS, now: float = 1000.0) -> HardwareObservation:
    """Observe the server with some files changed; None removes a file."""
    tree = {path: content for path, content in {**SERVER, **changes}.items() if path not in changes or content}
    files = MemoryFiles(tree.items())
    return observe(files, discover(files), facts, (), now)


def test_a_healthy_server() -> None:
    healthy = look({})
    assert healthy.gpu_addresses == {GPU_ADDRESS, "0000:83:00.0"}
    assert healthy.nic_addresses == {HCA, "0000:84:00.0"}
    assert healthy.pci is not None
    assert healthy.pci > healthy.gpu_addresses | healthy.nic_addresses
    assert healthy.links[GPU_ADDRESS] == LinkReading(32.0, 16)
    assert healthy.ports["mlx5_0/1"] == ("ACTIVE", "LinkUp", 400.0, {"symbol_error": 0, "link_downed": 0})
    assert healthy.drives == {"0000:15:00.0": "live"}
    assert healthy.nics["ib0"] == (HCA, True, 400000, 2)
    assert healthy.memory == ({DIMM: 0, "mc0": 0}, {DIMM: 0, "mc0": 0}, 0)
    assert (healthy.cpus.online, healthy.cpus.offline, healthy.cpus.throttles) == (16, (), {"package 0": 3})
    assert (healthy.memory_total, healthy.boot_id, healthy.silent) == (16 << 30, "11111111-2222", frozenset())


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("pcie-width", {f"{GPU_PATH}/current_link_width": line(8)}),
    ("pcie-width", {f"{SWITCH}/current_link_width": line(4)}),
    ("pcie-speed", {FUNCTION.format("01.0") + f"{HCA}/current_link_speed": line("16.0 GT/s PCIe")}),
    ("gpu-vanished", {f"sys/bus/pci/devices/{GPU_ADDRESS}": None}),
    ("port-down", {f"{PORT}/state": line("1: DOWN"), f"{PORT}/phys_state": line("2: Polling")}),
    ("port-rate", {f"{PORT}/rate": line("200 Gb/sec (2X NDR)")}),
    ("symbol-error-rising", {f"{PORT}/counters/symbol_error": line(70000)}),
    ("nic-down", {f"{NETDEV}/carrier": line(0)}),
    ("nic-flapping", {f"{NETDEV}/carrier_down_count": line(6)}),
    ("nic-speed", {f"{NETDEV}/speed": line(100000)}),
    ("edac-uncorrected", {f"{MC}/dimm0/dimm_ue_count": line(1)}),
    ("edac-uncorrected", {f"{MC}/ue_noinfo_count": line(1), f"{MC}/ue_count": line(1)}),
    ("edac-corrected-rising", {f"{MC}/dimm0/dimm_ce_count": line(900)}),
    ("edac-corrected-rising", {f"{MC}/ce_noinfo_count": line(900), f"{MC}/ce_count": line(900)}),
    ("pages-offlined", {"proc/meminfo": b"MemTotal: 16777216 kB\nHardwareCorrupted:     8 kB\n"}),
    ("memory-missing", {"proc/meminfo": b"MemTotal: 12582912 kB\nHardwareCorrupted:     0 kB\n"}),
    ("nvme-dead", {f"{DISK}/state": line("dead")}),
    ("cpus-offline", {f"{SYSTEM}/cpu/online": line("0-14")}),
    ("cpu-throttling", {f"{SYSTEM}/cpu/cpu0/thermal_throttle/package_throttle_count": line(500)}),
]


@pytest.mark.parametrize(("rule", "changes"), CHANGES)
def test_a_changed_tree_is_a_fault(rule: str, changes: dict[str, Any]) -> None:
    state = evaluate(HealthState(), look({})).state
    for now in (1010.0, 1080.0):
        state = evaluate(state, look(changes, now=now)).state
    assert rule in {fault.sign.rule for fault in state.active}
    assert evaluate(state, look({}, now=9000.0)).state.active == ()


@pytest.mark.parametrize("changes", [
    {f"{PORT}/state": line("?")}, {f"{PORT}/rate": line("fast")}, {f"{NETDEV}/carrier": None}, {f"{MC}/ue_count": b""},
    {f"{GPU_PATH}/current_link_width": line("")}, {f"{SYSTEM}/cpu/online": None}, {"proc/meminfo": b"\xff\n"},
])  # fmt: skip
def test_a_file_that_cannot_be_read_is_not_a_fault(changes: dict[str, Any]) -> None:
    state = evaluate(HealthState(), look({})).state
    for now in (1010.0, 9000.0):
        state = evaluate(state, look(changes, now=now)).state
    assert state.active == ()


def test_a_gpu_that_fell_off_the_bus_does_not_raise_the_baseline() -> None:
    """Every bit of its registers reads as one: 63 lanes, which no healthy link can reach after the reboot."""
    state = evaluate(HealthState(), look({})).state
    for width, now in ((63, 1010.0), (16, 9000.0), (16, 9100.0)):
        state = evaluate(state, look({f"{GPU_PATH}/current_link_width": line(width)}, now=now)).state
    assert (state.active, state.baseline and state.baseline.links[GPU_ADDRESS].width) == ((), 16)


def test_nvlinks_of_a_gpu_in_mig_mode_are_not_expected() -> None:
    """On the A100, the driver powers them off."""
    inactive = (NvmlLink(0, active=False), NvmlLink(1, active=False))
    split = NvmlFacts(gpus=(NvmlGpu(0, GPU_ADDRESS, "GPU-0", links=inactive, mig_mode=(1, 1)), *FACTS.gpus[1:]))
    whole = NvmlFacts(gpus=(split.gpus[0]._replace(mig_mode=(0, 0)), *FACTS.gpus[1:]))
    state = evaluate(HealthState(), look({})).state
    rules: list[list[str]] = []
    for facts, now in ((split, 1010.0), (split, 1090.0), (whole, 1100.0), (whole, 1180.0)):
        state = evaluate(state, look({}, facts, now=now)).state
        rules.append([fault.sign.rule for fault in state.active])
    assert rules == [[], [], [], ["nvlinks-inactive"]]


@pytest.mark.parametrize("unknown", [-1, 0, 65535, 4294967295])
def test_a_nic_of_unknown_speed_does_not_raise_the_baseline(unknown: int) -> None:
    """Kernels and drivers print an unknown speed as one of these numbers."""
    state = HealthState()
    for speed, now in ((unknown, 1000.0), (25000, 9000.0), (25000, 9100.0)):
        state = evaluate(state, look({f"{NETDEV}/speed": line(speed)}, now=now)).state
    assert (state.active, state.baseline and state.baseline.rates["ib0"]) == ((), 25.0)


@pytest.mark.parametrize(("port_name", "rules"), [
    ("pf0vf3", []), ("c1pf0sf88", []), ("p0", ["nic-down"]), ("p0s1", ["nic-down"]), ("", ["nic-down"]),
])  # fmt: skip
def test_only_netdevs_of_physical_ports_count(port_name: str, rules: list[str]) -> None:
    """The netdev that represents a virtual function loses its carrier with the pod that used the function."""
    netdev = NETDEV.replace("ib0", "rep0")
    tree: dict[str, Any] = {
        **{path.replace("ib0", "rep0"): content for path, content in SERVER.items() if path.startswith(NETDEV)},
        "sys/class/net/rep0": f"../../{netdev.removeprefix('sys/')}",
        f"{netdev}/phys_port_name": line(port_name),
    }
    state = HealthState()
    for carrier, now in ((1, 1000.0), (0, 9000.0), (0, 9100.0)):
        state = evaluate(state, look({**tree, f"{netdev}/carrier": line(carrier)}, now=now)).state
    assert [fault.sign.rule for fault in state.active] == rules


def test_silent_nvml_does_not_imply_a_healthy_gpu() -> None:
    for facts in (None, NvmlFacts(problem="the nvidia driver did not respond within 10 s")):
        silent = look({}, facts)
        assert (silent.gpus, silent.silent) == (None, {"nvml"})


def test_gpus_of_simulated_nvml() -> None:
    double = stub_twin()
    double.gpus[0].results["nvmlDeviceGetFieldValues", 52] = 7
    double.gpus[0].results["nvmlDeviceGetFieldValues", 38] = 1
    double.gpus[0].results["nvmlDeviceGetMigMode"] = (0, 0)
    first, second = (gpu_readings(collect_nvml(double)) or {}).values()
    assert (first.address, first.remapped_pending, first.remapped_failed) == ("0000:3b:00.0", True, False)
    assert (first.recovery_action, first.nvlinks, first.nvlink_errors) == (4, 3, 8)
    assert (second.ecc_corrected, second.recovery_action, second.nvlink_errors, second.lost) == (
        None,
        None,
        None,
        False,
    )
    double.gpus[1].results["nvmlDeviceGetName"] = NvmlError(GPU_IS_LOST)
    assert list((gpu_readings(collect_nvml(double)) or {}).values())[1].lost


def test_the_only_device_of_a_bus_vanishes() -> None:
    address = "0001:00:00.0"
    path = f"sys/bus/pci/devices/{address}"
    attributes = {"class": line("0x030200"), "vendor": line("0x10de"), "device": line("0x2330")}
    machine = [(path, content) for path, content in SERVER.items() if not set(path.split("/")) & {"bus", "class"}]
    before = MemoryFiles([*machine, *((f"{path}/{name}", content) for name, content in attributes.items())])
    after = MemoryFiles([*machine, ("sys/bus/pci/devices", None)])
    state = HealthState()
    for files, now in ((before, 1.0), (after, 61.0), (after, 121.0)):
        state = evaluate(state, observe(files, discover(files), None, (), now)).state
    assert [(fault.sign.rule, fault.sign.device.name) for fault in state.active] == [("gpu-vanished", address)]


PLUGGED = "devices/pci0000:00/0000:00:06.0"
"""A NIC in a slot of its own, below /sys."""
VF = {
    f"sys/{PLUGGED}/net/vf0/master": "../../../../vmbus/net/eth0",
    "sys/class/net/vf0": f"../../{PLUGGED}/net/vf0",
    "sys/class/net/eth0": "../../devices/vmbus/net/eth0",
    "sys/devices/vmbus/net/eth0/device": "../..",
    "sys/devices/vmbus/driver": "../../bus/vmbus/drivers/hv_netvsc",
}
EFA = {
    f"sys/{PLUGGED}/infiniband/efa_0/node_type": line("4: RNIC"),
    "sys/class/infiniband/efa_0": f"../../{PLUGGED}/infiniband/efa_0",
}


@pytest.mark.parametrize(("vendor", "more", "rules"), [
    ("0x15b3", {}, ["nic-vanished"]), ("0x1d0f", EFA, ["nic-vanished"]), ("0x1d0f", {}, []), ("0x15b3", VF, []),
])  # fmt: skip
def test_a_nic_that_a_hypervisor_detaches_has_not_vanished(
    vendor: str, more: dict[str, bytes | str], rules: list[str]
) -> None:
    """Network plugins of clouds detach paravirtual NICs; a virtual function may leave the paravirtual NIC above it."""
    plugged: dict[str, Any] = {
        **{f"sys/{PLUGGED}/{name}": line(text) for name, text in (("vendor", vendor), ("class", "0x020000"))},
        "sys/bus/pci/devices/0000:00:06.0": f"../../../{PLUGGED}",
        **more,
    }
    state = HealthState()
    for now, changes in ((1000.0, plugged), (9000.0, {}), (9100.0, {})):
        state = evaluate(state, look(changes, now=now)).state
    assert [fault.sign.rule for fault in state.active] == rules


@pytest.mark.parametrize(("pci_class", "rules"), [("0x020000", ["nic-down"]), ("0x0c0330", [])])
def test_the_nic_of_a_bmc_is_not_checked(pci_class: str, rules: list[str]) -> None:
    """It is on USB, and has no carrier while the BMC restarts."""
    tree: dict[str, Any] = {
        f"sys/{PLUGGED}/vendor": line("0x8086"),
        f"sys/{PLUGGED}/class": line(pci_class),
        "sys/bus/pci/devices/0000:00:06.0": f"../../../{PLUGGED}",
        f"sys/{PLUGGED}/usb1/1-1/1-1:1.0/net/bmc0/address": line("00:00"),
        "sys/class/net/bmc0": f"../../{PLUGGED}/usb1/1-1/1-1:1.0/net/bmc0",
    }
    carrier = f"sys/{PLUGGED}/usb1/1-1/1-1:1.0/net/bmc0/carrier"
    state = HealthState()
    for number, now in ((1, 1000.0), (0, 9000.0), (0, 9100.0)):
        state = evaluate(state, look({**tree, carrier: line(number)}, now=now)).state
    assert [fault.sign.rule for fault in state.active] == rules


@pytest.mark.parametrize(
    "device",
    [
        "sys/bus/virtio/drivers/virtio_balloon/virtio0/uevent",
        "sys/bus/virtio/drivers/virtio_mem/virtio3/uevent",
        "sys/bus/vmbus/drivers/hv_balloon/1eccfd72-4b41-45ef-b73a-4a6e44c12924/uevent",
        "sys/devices/system/xen_memory/xen_memory0/target_kb",
    ],
)
def test_memory_that_a_hypervisor_takes_is_not_missing(device: str) -> None:
    """The total changes with each balloon, and is therefore neither learned nor compared."""
    less = {"proc/meminfo": b"MemTotal: 12582912 kB\nHardwareCorrupted:     0 kB\n"}
    state = evaluate(HealthState(), look({device: line("")}, now=0.0)).state
    for second in (60.0, 120.0):
        state = evaluate(state, look({device: line(""), **less}, now=second)).state
    assert state.baseline is not None
    assert state.active == ()


def test_a_driver_without_a_device_takes_no_memory() -> None:
    """The directory of a driver exists once the driver is loaded."""
    assert look({"sys/bus/virtio/drivers/virtio_balloon/bind": line("")}).memory_total == 16 << 30


def test_a_machine_without_devices_has_a_baseline() -> None:
    files = MemoryFiles(
        [(path, content) for path, content in SERVER.items() if not set(path.split("/")) & {"bus", "class", "block"}]
    )
    observation = observe(files, discover(files), None, (), 1.0)
    assert evaluate(HealthState(), observation).state.baseline is not None


def test_the_digest_of_the_machine() -> None:
    """Machines are told apart by SMBIOS, or else by the device tree; the digest does not contain the identifier."""
    by_smbios = [look({"sys/class/dmi/id/product_uuid": line(f"UUID-{number}")}).machine_id for number in (1, 1, 2)]
    assert by_smbios[0] == by_smbios[1] != by_smbios[2]
    assert "UUID" not in by_smbios[0]
    by_device_tree = [look({"proc/device-tree/system-id": f"{number}\0".encode()}).machine_id for number in (1, 2)]
    assert len({"", *by_smbios, *by_device_tree}) == 5
    assert look({}).machine_id == ""
