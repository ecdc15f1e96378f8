"""The kubelet's own files compared with our agent's object of the same node."""

from __future__ import annotations

from hypothesis import given

from support.kubelet_reports import CONFIG, DEVICE, NodeHistory, make_node, node_histories
from support.state_file_nodes import NodeHardware, read_state_files
from zonewise.kubelet.types import ContainerDevices, DeviceCheckpoint, StateFiles
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_scheduler.admission.cpu_topology import CpuTopology
from zonewise_scheduler.admission.node import DeviceClass
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt

NO_CPUS = CpuTopology((), (), ())


@given(node_histories())
def test_files_and_reports_agree(drawn: NodeHistory) -> None:
    """CPUs, memory, groups, devices and policies agree for a node whose pods are all alive."""
    node = drawn._replace(records=tuple(record._replace(alive=True) for record in drawn.records))
    report = node.report()
    assert report.state.devices is not None
    ids = tuple(name for device in node.devices for name in device.ids)
    checkpoint = report.state.devices._replace(registered={DEVICE: ids} if ids else {})
    files = report.state._replace(devices=checkpoint)
    active = frozenset(record.uid for record in node.records)
    usage = node_usage(node.machine, report._replace(state=files, active=active))
    assert isinstance(usage, Usage)
    state = read_nrt(machine_to_nrt(node.machine, "n", usage, CONFIG), KindInterner()).state
    assert state is not None
    kind = state.kind
    assert read_state_files(files, CONFIG, NodeHardware(kind.cpus, node.devices, kind.zones, kind.distances)) == state


def test_managers_without_a_policy_allocate_nothing() -> None:
    """The files of these managers are ignored."""
    files = NodeHistory(make_node((0, 1)), ()).report().state
    config = CONFIG._replace(cpu_manager_policy="none", memory_manager_policy="None")
    state = read_state_files(files, config, NodeHardware(CpuTopology(((0, 1),), ((0, 1),), ((0, 1),)), zones=(1,)))
    assert (state.free_cpus, state.memory_free, state.memory_assigned, state.kind.memory_types) == (0, (), 0, ())
    assert state.kind.zones == (0, 1)


def test_devices_without_a_checkpoint_are_all_free() -> None:
    state = read_state_files(StateFiles(), CONFIG, NodeHardware(NO_CPUS, (ContainerDevices("r/a", ("x", "y"), (1,)),)))
    assert (state.kind.devices, state.device_free) == ((DeviceClass("r/a", 2, 2, 2),), (2,))


def test_only_registered_devices_are_healthy() -> None:
    """A resource without registered devices is known and has none; an unhealthy device counts only in the total."""
    checkpoint = DeviceCheckpoint((), {"r/a": ("x",), "r/gone": ()})
    hardware = NodeHardware(NO_CPUS, (ContainerDevices("r/a", ("x", "y"), (0,)), ContainerDevices("r/b", ("z",))))
    state = read_state_files(StateFiles(devices=checkpoint), CONFIG, hardware)
    assert state.kind.devices == (
        DeviceClass("r/a", 1, 2, 1),
        DeviceClass("r/b", 0, 1, 0),
        DeviceClass("r/gone", 0, 0, 0),
    )
    assert state.device_free == (1, 0, 0)
