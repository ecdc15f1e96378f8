"""A whole node: hardware, a container runtime, a kubelet and device plugins, in a temporary directory."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from support.e2e.hardware import Hardware, lay_out_hardware
from support.e2e.kubelet import NODE, Kubelet
from support.e2e.plugin import Device, Plugin
from support.e2e.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from support.e2e.settings import Settings

Object = dict[str, Any]
# Not pytest's own directory, because the path of a unix socket may have at most 107 bytes. A file system in memory is
# used if there is one. Creating the 1,400 files of a machine takes 40 ms there, and more than a second on some disks.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_UNPLUGGED: Object = {"Data": {"RegisteredDevices": {}}}
_SETTLED = ("Running", "Succeeded", "Failed")


class Node(NamedTuple):
    """The parts of a node, all of them running."""

    hardware: Hardware
    settings: Settings
    root: Path
    """The machine's files, as discovery reads them."""
    runtime: Runtime
    kubelet: Kubelet
    plugins: list[Plugin]

    def run(self, *pods: Object) -> None:
        """Give pods to the kubelet one after another; each must run."""
        for pod in pods:
            status = self.offer(pod)
            assert status["phase"] != "Failed", status

    def offer(self, pod: Object) -> Object:
        """Give a pod to the kubelet; return its status once it runs or was rejected."""
        name = self.kubelet.add(pod)
        self.kubelet.until(lambda: self.kubelet.statuses().get(name, {}).get("phase") in _SETTLED, f"pod {name}")
        return self.kubelet.statuses()[name]

    def end(self, *names: str) -> None:
        """Remove pods and wait until the kubelet has forgotten them."""
        for name in names:
            self.kubelet.remove(name)
        ended = {f"{name}-{self.kubelet.name}" for name in names}
        self.kubelet.until(lambda: ended.isdisjoint(self._held()), f"end of {names}")

    def plug(self, resource: str, devices: Iterable[Device]) -> Plugin:
        """Register a device plugin, wait until the kubelet has its devices, and stop the plugin with the node."""
        plugin = Plugin(self.kubelet.plugins, resource, devices)
        self.plugins.append(plugin)
        plugin.register()
        count = sum(device.healthy for device in plugin.devices)
        self.kubelet.until(lambda: self.healthy(resource) == count, f"devices {resource}")
        return plugin

    def healthy(self, resource: str) -> int:
        """Return the number of healthy devices of a resource according to the kubelet."""
        checkpoint = self.kubelet.plugins / "kubelet_internal_checkpoint"
        content: Object = json.loads(checkpoint.read_text()) if checkpoint.exists() else _UNPLUGGED
        return len(content["Data"]["RegisteredDevices"].get(resource, ()))

    def _held(self) -> set[str]:
        """Return the pods that the kubelet has or that have a running container."""
        return self.kubelet.statuses().keys() | {pod for pod, _ in self.runtime.running()}


@contextlib.contextmanager
def running_node(
    settings: Settings, hardware: Hardware | None = None, *, name: str = NODE, kubeconfig: str = ""
) -> Generator[Node]:
    """Run a node, standalone or as part of the cluster of a kubeconfig."""
    hardware = hardware or Hardware()
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="node-", dir=_MEMORY)))
        root = lay_out_hardware(hardware, place / "hardware")
        runtime = stack.enter_context(Runtime(place / "runtime.sock"))
        kubelet = stack.enter_context(
            Kubelet(place / "kubelet", root, runtime.endpoint, settings, name=name, kubeconfig=kubeconfig)
        )
        plugins: list[Plugin] = []
        stack.callback(lambda: [plugin.stop() for plugin in plugins])
        yield Node(hardware, settings, root, runtime, kubelet, plugins)
