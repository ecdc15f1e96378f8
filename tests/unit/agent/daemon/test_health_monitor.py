"""The monitor: a kernel log that the test writes, simulated NVML, changed trees, pods that hold GPUs, and restarts."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from support.trees import Contents, line, server_tree
from zonewise.daemon.events import Reason
from zonewise.daemon.health_monitor import HealthMonitor, HealthOptions, read_baseline
from zonewise.daemon.kernel_log_channel import KernelLogChannel, open_kernel_log
from zonewise.daemon.nvml_watch import NvmlWatch
from zonewise.health.types import GPU, DeviceId, PodName, Verdict
from zonewise.kubelet.types import Allocatable, ContainerDevices, ContainerResources, PodResources
from zonewise.machine.discover import discover
from zonewise.machine.files import MemoryFiles
from zonewise.machine.kernel_log import KernelLog
from zonewise.machine.nvml.backend import DRIVER_NOT_LOADED, NvmlError
from zonewise.machine.nvml.queries import collect_nvml
from zonewise_common.service.options import SettingsError
from zonewise_sandbox.nvml import NvmlDevice, SimulatedNvml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, SECOND = "0000:13:00.0", "0000:83:00.0"
TIMER, PODS, HEALTH = (frozenset({reason}) for reason in (Reason.TIMER, Reason.PODS, Reason.HEALTH))
TREE: Contents = {**server_tree(), "proc/sys/kernel/random/boot_id": line("boot-1")}
UUIDS = {FIRST: "GPU-1", SECOND: "GPU-2"}


def pod(name: str, *uuids: str) -> PodResources:
    devices = (ContainerDevices("nvidia.com/gpu", uuids),) if uuids else ()
    return PodResources("team", name, (ContainerResources("main", devices=devices),))


class Node:
    """A node whose agent can be restarted."""

    def __init__(self, directory: Path) -> None:
        self.now = 1_700_000_000.0
        self.state_file = str(directory / "state" / "health.json")
        self.log_file = directory / "kmsg"
        self.log_file.touch()
        self.tree: Contents = dict(TREE)
        self.nvml = SimulatedNvml([NvmlDevice(self._gpu(address)) for address in UUIDS], {})
        self._sequence = 0
        self.monitor = self.start()

    @staticmethod
    def _gpu(address: str) -> dict[Any, Any]:
        return {"nvmlDeviceGetPciInfo": address, "nvmlDeviceGetUUID": UUIDS[address]}

    def start(self, **options: Any) -> HealthMonitor:
        """Start a new agent, which knows only its state file."""
        log = KernelLogChannel(KernelLog(str(self.log_file), started_at=lambda: 0.0))
        watch = NvmlWatch(lambda: collect_nvml(self.nvml), 3600.0, lambda: None)
        watch.start = lambda: None  # type: ignore[method-assign]
        self.watch = watch
        files = _Changing(self)
        self.monitor = HealthMonitor(
            files, HealthOptions(self.state_file, **options), kernel_log=log, nvml=watch, clock=lambda: self.now
        )
        return self.monitor

    def restart(self) -> None:
        """Stop the agent and start a new one."""
        self.monitor.close()
        self.start()

    def print(self, message: str) -> None:
        """Print a line to the kernel log with the current time."""
        self._sequence += 1
        with self.log_file.open("a") as file:
            file.write(f"4,{self._sequence},{int(self.now * 1e6)},-;{message}\n")

    def check(self, *pods: PodResources, reasons: frozenset[Reason] = TIMER, after: float = 1.0) -> list[str]:
        """Scan, and return the rules of the active faults."""
        self.now += after
        self.watch.facts = collect_nvml(self.nvml)
        machine = discover(MemoryFiles(self.tree.items()))
        gpus = tuple(gpu._replace(uuid=UUIDS.get(gpu.address or ""), state=None) for gpu in machine.gpus)
        return [fault.sign.rule for fault in self.monitor.check(machine._replace(gpus=gpus), pods, reasons)]


class _Changing:
    """The current files of the node's tree."""

    live = True

    def __init__(self, node: Node) -> None:
        self._node = node

    def read(self, path: str) -> bytes:
        return MemoryFiles(self._node.tree.items()).read(path)

    def names(self, path: str) -> list[str]:
        return MemoryFiles(self._node.tree.items()).names(path)

    def link(self, path: str) -> str:
        return MemoryFiles(self._node.tree.items()).link(path)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.monitor.close()


def test_an_xid_is_attributed_and_lasts_over_restarts_until_the_reboot(node: Node) -> None:
    assert node.check(pod("train", "GPU-1"), pod("idle")) == []
    node.print("NVRM: Xid (PCI:0000:13:00): 79, pid=7, name=python, GPU has fallen off the bus.")
    assert node.check(pod("train", "GPU-1"), reasons=HEALTH) == ["xid-79"]
    (fault,) = node.monitor.faults
    assert (fault.sign.verdict, fault.pods) == (Verdict.HARDWARE, (PodName("team", "train", "main"),))
    for _ in range(3):
        node.restart()
        assert node.check(pod("other", "GPU-2"), after=600.0) == ["xid-79"]
        assert node.monitor.faults[0].pods == fault.pods
        assert node.monitor.faults[0].occurrences == 1
    assert node.monitor.counts == {}
    node.monitor.close()
    node.tree["proc/sys/kernel/random/boot_id"] = line("boot-2")
    node.log_file.write_text("")
    node.start()
    assert node.check(after=600.0) == []


def test_a_program_is_at_fault_and_the_next_pod_is_not(node: Node) -> None:
    node.check(pod("a", "GPU-1"))
    node.print("NVRM: Xid (PCI:0000:13:00): 31, pid=7, name=python, Ch 00000008")
    node.now += 0.5
    assert node.check(pod("b", "GPU-1"), reasons=PODS) == []
    node.check(pod("b", "GPU-1"), reasons=HEALTH)
    (fault,) = node.monitor.faults
    assert (fault.sign.verdict, [name.pod for name in fault.pods]) == (Verdict.APPLICATION, ["a"])


def test_faults_of_nvml_and_of_the_tree(node: Node) -> None:
    node.check()
    node.nvml.lost.add(0)
    width = next(path for path in node.tree if path.endswith(f"{SECOND}/current_link_width"))
    node.tree[width] = line(4)
    node.check()
    assert node.check(after=120.0) == ["pcie-width"]  # a lost GPU has no address in NVML either; PCI reports it
    node.nvml.lost.clear()
    node.nvml.gpus[0].results["nvmlDeviceGetRemappedRows"] = (0, 9, 0, 1)
    assert node.check() == ["row-remapping-failed", "pcie-width"]
    node.nvml.gpus[0].results["nvmlDeviceGetRemappedRows"] = (0, 9, 0, 0)
    node.tree[width] = line(16)
    assert node.check(after=120.0) == []


def test_a_suspected_gpu_is_queried_again(node: Node) -> None:
    """A GPU that became idle lowers the speed of its link: with a long interval, NVML's last facts show it busy."""
    queries: list[float] = []
    node.watch.query_soon = lambda: queries.append(node.now)  # type: ignore[method-assign]
    reasons = node.nvml.gpus[1].results
    reasons["nvmlDeviceGetCurrentClocksEventReasons"] = 0
    node.check()
    assert queries == []
    speed = next(path for path in node.tree if path.endswith(f"{SECOND}/current_link_speed"))
    node.tree[speed] = b"2.5 GT/s PCIe\n"
    node.check()
    assert queries == [node.now]
    reasons["nvmlDeviceGetCurrentClocksEventReasons"] = 1
    assert node.check(after=120.0) == []
    assert len(queries) == 1


def test_a_failed_gpu_is_withheld_if_configured(node: Node) -> None:
    node.check()
    node.nvml.gpus[0].results["nvmlDeviceGetRemappedRows"] = (0, 9, 0, 1)
    node.check()
    machine = discover(MemoryFiles(node.tree.items()))
    machine = machine._replace(gpus=tuple(g._replace(uuid=UUIDS.get(g.address or "")) for g in machine.gpus))
    allocatable = Allocatable(devices=(ContainerDevices("nvidia.com/gpu", ("GPU-1::0", "GPU-1::1", "GPU-2::0")),))
    assert node.monitor.without_failed(machine, allocatable) == allocatable
    node.monitor.close()
    node.start(withhold=True)
    node.check()
    (devices,) = node.monitor.without_failed(machine, allocatable).devices
    assert devices.ids == ("GPU-2::0",)
    assert node.monitor.device_health() == {FIRST: "failed: row-remapping-failed (hardware)"}


def test_a_baseline_that_cannot_be_learned_is_logged_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.nvml = SimulatedNvml([], {}, NvmlError(DRIVER_NOT_LOADED))
    node.check()
    node.check(after=60.0)
    assert "no baseline" not in caplog.text  # NVML may have been queried for the first time only now
    for _ in range(3):
        node.check(after=400.0)
    assert caplog.text.count("no baseline is learned") == 1
    assert "because nvml cannot be read, so missing devices and lanes are not detected. Make it readable" in caplog.text


def test_a_flood_of_events_causes_few_writes(node: Node) -> None:
    versions: set[int] = set()
    for _ in range(20):
        node.print("NVRM: Xid (PCI:0000:13:00): 31, pid=7, name=python, Ch 00000008")
        node.check(reasons=HEALTH, after=0.4)
        versions.add(os.stat(node.state_file).st_mtime_ns)
    assert node.monitor.faults[0].occurrences == 20
    assert len(versions) == 1
    node.restart()
    node.check()
    assert node.monitor.faults[0].occurrences == 20


@pytest.mark.parametrize("content", [b"", b"{}", b"\0" * 100, None])
def test_a_damaged_state_is_replaced(node: Node, content: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    node.check()
    node.monitor.close()
    if content is None:
        os.unlink(node.state_file)
    else:
        with open(node.state_file, "wb") as file:
            file.write(content)
    node.start()
    assert node.check() == []
    assert ("health checks begin without earlier state" in caplog.text) == (content is not None)


def test_the_state_of_another_machine_is_ignored(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """A disk image was made of a machine whose GPU the new one does not have."""
    node.tree["sys/class/dmi/id/product_uuid"] = line("UUID-1")
    node.check()
    node.monitor.close()
    node.tree = {path: content for path, content in node.tree.items() if "0000:13:00.0" not in path}
    node.tree["sys/class/dmi/id/product_uuid"] = line("UUID-2")
    node.start()
    assert [node.check(after=60.0) for _ in range(3)] == [[]] * 3
    assert caplog.text.count("belongs to another machine") == 1
    node.restart()
    node.check()
    assert caplog.text.count("belongs to another machine") == 1


def test_a_state_that_cannot_be_written_is_logged_once(
    node: Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    node.state_file = str(tmp_path / "file" / "health.json")
    node.start()
    for _ in range(3):
        node.check(after=400.0)
    assert caplog.text.count("known faults are lost") == 1


@pytest.mark.timeout(30)
def test_a_state_file_that_is_a_fifo_is_neither_waited_for_nor_replaced(
    node: Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node.state_file = str(tmp_path / "fifo")
    os.mkfifo(node.state_file)
    node.start()
    assert node.check() == []
    node.monitor.close()
    assert stat.S_ISFIFO(os.stat(node.state_file).st_mode)
    assert "health checks begin without earlier state" in caplog.text
    assert f"{node.state_file}: is not a regular file: known faults are lost" in caplog.text
    with pytest.raises(SettingsError, match=r"health\.baselineFile: .*fifo: is not a regular file"):
        read_baseline(node.state_file)


def test_a_log_that_cannot_be_read_and_a_wrong_baseline(tmp_path: Path) -> None:
    assert open_kernel_log(str(tmp_path / "none")) is None
    assert open_kernel_log(str(tmp_path)) is None
    assert open_kernel_log("") is None
    assert read_baseline("") is None
    wrong = tmp_path / "baseline.json"
    wrong.write_text('{"gpus": 8}')
    with pytest.raises(SettingsError, match=r"health\.baselineFile: .*gpus"):
        read_baseline(str(wrong))
    with pytest.raises(SettingsError, match="No such file"):
        read_baseline(str(tmp_path / "none"))


def test_plugin_ids_are_mapped_to_devices(node: Node) -> None:
    node.check(pod("sliced", "GPU-2::3"))
    assert [str(device) for device in node.monitor.state.holders] == [str(DeviceId(GPU, SECOND))]
