"""Responses and files of a real kubelet in recorded scenes, to replay without a kubelet."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict

from support.e2e.hardware import Hardware, hardware_tree
from support.e2e.node import running_node
from support.e2e.plugin import Device
from support.e2e.pods import GPU, burstable, container, init, pod, sidecar
from support.e2e.settings import Settings
from support.e2e.truth import Stock, Truth, truth, unzoned
from support.snapshots import PROJECT
from support.waiting import PATIENCE
from zonewise.kubelet.config import parse_config
from zonewise.kubelet.cpu_manager_state import parse_cpu_manager_state
from zonewise.kubelet.device_checkpoint import parse_device_checkpoint
from zonewise.kubelet.memory_manager_state import parse_memory_manager_state
from zonewise.kubelet.podresources.responses import decode_allocatable, decode_list
from zonewise.kubelet.podresources.v1 import podresources_pb2 as api
from zonewise.kubelet.types import KubeletReport, StateFiles
from zonewise.machine.discover import discover
from zonewise.machine.files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

    from support.e2e.node import Node, Object
    from zonewise.machine.model.machine import Machine

RECORDINGS = PROJECT / "tests" / "fixtures" / "kubelet"
_OF_ONE_RUN = frozenset({"containerRuntimeEndpoint", "imageServiceEndpoint", "staticPodPath", "port"})
FILES = ("cpu_manager_state", "memory_manager_state", "device-plugins/kubelet_internal_checkpoint")


class RecordedScenario(NamedTuple):
    """A scene on a node with the default hardware."""

    name: str
    settings: Settings
    play: Callable[[Node], None]


def _leftovers(node: Node) -> None:
    node.run(pod("a", container(cpu="2", memory="1Gi"), inits=(init("i", cpu="6", memory="3Gi"),)))
    node.run(pod("b", container(cpu="2", memory="1Gi")))


def _sidecars(node: Node) -> None:
    helpers = (sidecar("s", cpu="2", memory="1Gi"), init("i", cpu="4", memory="2Gi"))
    node.run(pod("a", container(cpu="4", memory="1Gi"), inits=helpers))


def _rejected_pod(node: Node) -> None:
    node.run(pod("a", container(cpu="4", memory="1Gi")))
    node.offer(pod("b", container("c1", cpu="4", memory="1Gi"), container("c2", cpu="40", memory="1Gi")))
    node.run(pod("nothing", container()))


def _shared(node: Node) -> None:
    node.run(pod("a", container(cpu="4", memory="1Gi")), pod("b", burstable(cpu="1", memory="1Gi")))


def _late(node: Node) -> None:
    node.run(pod("a", container(cpu="4", memory="1Gi")))
    node.plug(GPU, [Device("a", (0,)), Device("b", (0, 1)), Device("c"), Device("ill", (1,), healthy=False)])
    node.run(pod("b", container(cpu="1", memory="1Gi", gpu="1")))


def _group(node: Node) -> None:
    node.run(pod("a", container(cpu="1500m", memory="300Gi", hugepages_2Mi="64Mi")))


SCENES = (
    RecordedScenario("init-containers", Settings(topology="restricted"), _leftovers),
    RecordedScenario("restartable-init-containers", Settings(topology="single-numa-node", scope="pod"), _sidecars),
    RecordedScenario("refused-pods", Settings(topology="single-numa-node"), _rejected_pod),
    RecordedScenario("cpu-none", Settings(topology="best-effort", cpu="none"), _shared),
    RecordedScenario("memory-none", Settings(topology="best-effort", memory="None"), _shared),
    RecordedScenario("all-none", Settings(cpu="none", memory="None"), _shared),
    RecordedScenario("late-device-plugin", Settings(topology="restricted"), _late),
    RecordedScenario("memory-group", Settings(topology="best-effort"), _group),
)


# --- recording


def record(scene: RecordedScenario) -> Object:
    """Play a scene on a real kubelet; return all that can be read from the kubelet, and the truth about its zones."""
    with running_node(scene.settings) as node:
        scene.play(node)
        return {
            "name": scene.name,
            "configuration": _configuration(node),
            "list": _ask(node, "List", api.ListPodResourcesResponse),
            "allocatable": _ask(node, "GetAllocatableResources", api.AllocatableResourcesResponse),
            "files": {name: _file(node, name) for name in FILES},
            "zones": {str(zone): stocks for zone, stocks in truth(node).items()},
            "unzoned": unzoned(node),
        }


def write(recording: Object) -> str:
    """Return a recording as text, each part on its own line."""
    lines = (f"{json.dumps(key)}: {json.dumps(recording[key], sort_keys=True)}" for key in recording)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _configuration(node: Node) -> Object:
    """Return the configuration without the values that differ in each run."""
    made: Object = json.loads(node.kubelet.get("/configz"))["kubeletconfig"]
    return {name: value for name, value in made.items() if name not in _OF_ONE_RUN}


def _ask(node: Node, method: str, answer: type[Message]) -> Object:
    """Call a method of the PodResources API with an empty request."""
    with contextlib.closing(grpc.insecure_channel(f"unix://{node.kubelet.podresources}")) as channel:
        call = channel.unary_unary(
            f"/v1.PodResourcesLister/{method}",
            request_serializer=bytes,
            response_deserializer=answer.FromString,
        )
        return MessageToDict(call(b"", timeout=PATIENCE), preserving_proto_field_name=True)


def _file(node: Node, name: str) -> Any:
    file = node.kubelet.directory / name
    return json.loads(file.read_text()) if file.exists() else None


# --- replaying


def recordings() -> list[str]:
    """Return the names of the recordings."""
    return sorted(file.stem for file in RECORDINGS.glob("*.json"))


def recording(name: str) -> Object:
    """Read a recording."""
    return json.loads((RECORDINGS / f"{name}.json").read_text())


def recorded_machine() -> Machine:
    """Return the machine on which all recordings were made."""
    return discover(MemoryFiles(hardware_tree(Hardware()).items()))


def recorded_report(made: Object) -> KubeletReport:
    """Return a recording as a kubelet's report."""
    files: dict[str, Object | None] = made["files"]
    cpu, memory, devices = ((name, json.dumps(files[name]).encode()) if files[name] else None for name in FILES)
    listed = ParseDict(made["list"], api.ListPodResourcesResponse()).SerializeToString()
    allocatable = ParseDict(made["allocatable"], api.AllocatableResourcesResponse()).SerializeToString()
    return KubeletReport(
        decode_list(listed).pods,
        decode_allocatable(allocatable).allocatable,
        parse_config(made["configuration"], origin=made["name"]),
        StateFiles(
            parse_cpu_manager_state(cpu[1], cpu[0]).value if cpu else None,
            parse_memory_manager_state(memory[1], memory[0]).value if memory else None,
            parse_device_checkpoint(devices[1], devices[0]).value if devices else None,
        ),
    )


def recorded_truth(made: Object) -> tuple[Truth, dict[str, Stock]]:
    """Return the truth about the zones, and about devices without a zone."""
    zones = {int(zone): {name: Stock(*pair) for name, pair in of.items()} for zone, of in made["zones"].items()}
    return zones, {name: Stock(*pair) for name, pair in made["unzoned"].items()}
