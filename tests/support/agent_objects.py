"""NodeResourceTopology objects of the agent, decoded into node states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.kubelet_reports import CONFIG, make_allocatable, make_node
from zonewise.kubelet.types import ContainerDevices, KubeletReport
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import NodeReport, read_nrt

if TYPE_CHECKING:
    from zonewise.kubelet.types import PodResources
    from zonewise.machine.model.machine import Machine
    from zonewise_scheduler.admission.node import NodeState

Object = dict[str, Any]
TWO = make_node((0, 1))


def published(machine: Machine, report: KubeletReport) -> Object:
    """Return the object that the agent publishes for a machine and its kubelet's report."""
    usage = node_usage(machine, report)
    assert isinstance(usage, Usage)
    return machine_to_nrt(machine, "n", usage, report.config)


def report_of(machine: Machine, *pods: PodResources, devices: tuple[ContainerDevices, ...] = ()) -> KubeletReport:
    """Return the report of a kubelet with static managers."""
    return KubeletReport(pods, make_allocatable(machine, devices), CONFIG)


def state_of(report: NodeReport) -> NodeState:
    """Return the state for a report that has no problems and no unknown facts."""
    assert report.problems == ()
    assert report.state is not None
    assert report.state.kind.unknown == ()
    return report.state


def read(machine: Machine, report: KubeletReport) -> NodeState:
    """Return the state decoded from the agent's object for a machine."""
    return state_of(read_nrt(published(machine, report), KindInterner()))


def damaged_state(nrt: Object) -> NodeState:
    """Return the state decoded from an object that may have problems."""
    state = read_nrt(nrt, KindInterner()).state
    assert state is not None
    return state


# --- objects to edit


def two_zones() -> Object:
    """Return an object with two idle zones and a device close to both."""
    return published(TWO, report_of(TWO, devices=(ContainerDevices("r/d", ("a",), (0, 1)),)))


def edited(path: tuple[str | int, ...], value: Any) -> Object:
    """Return the object of two zones with the value at a path replaced."""
    nrt = two_zones()
    owner: Any = nrt
    for step in path[:-1]:
        owner = owner[step]
    owner[path[-1]] = value
    return nrt


def attribute(name: str, value: object) -> Object:
    return {"name": name, "value": value}


def set_attribute(owner: Object, name: str, value: object) -> None:
    """Set an attribute of an object or a zone, replacing any attribute of the same name."""
    owner["attributes"] = [item for item in owner["attributes"] if item["name"] != name] + [attribute(name, value)]
