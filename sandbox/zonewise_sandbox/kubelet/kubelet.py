"""A kubelet without a node: it serves the PodResources API and writes the checkpoint files for simulated pods."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from zonewise.kubelet.podresources.client import SERVICE as PODRESOURCES_SERVICE
from zonewise.kubelet.podresources.v1 import podresources_pb2 as pb
from zonewise.kubelet.pods.v1alpha1 import pods_pb2
from zonewise.kubelet.pods.watch import SERVICE as PODS_SERVICE
from zonewise.kubelet.types import Allocatable, KubeletConfig
from zonewise_sandbox.kubelet.allocation import DoesNotFit
from zonewise_sandbox.kubelet.checkpoint_files import write_cpu_state, write_device_checkpoint, write_memory_state
from zonewise_sandbox.kubelet.container_manager import ContainerManager
from zonewise_sandbox.kubelet.grpc_server import Broadcast, Calls, Faults, serve
from zonewise_sandbox.kubelet.podresources_messages import encode_allocatable, encode_event, encode_list

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    import grpc
    from google.protobuf.message import Message

    from zonewise_sandbox.kubelet.types import PodSpec, SimulatedDevice, SimulatedZone

STATIC = KubeletConfig(
    cpu_manager_policy="static",
    memory_manager_policy="Static",
    topology_manager_policy="best-effort",
    reserved_milli_cpus=1000,
)
"""A configuration under which a kubelet allocates CPUs and memory exclusively."""

NO_FAULTS = Faults()

RECONCILE_PERIOD = 10.0
"""Seconds (cpuManagerReconcilePeriod, pkg/kubelet/apis/config/v1beta1/defaults.go)."""

_BALLAST = pb.DynamicResource(
    claim_name="claim",
    claim_namespace="default",
    claim_resources=[pb.ClaimResource(driver_name="driver.example", pool_name="node", device_name="device-0")] * 100,
)
_GARBAGE = b"\xff\xff\xff\xff"


class SimulatedKubelet:
    """A kubelet for tests, demonstrations and benchmarks, in a separate directory.

    It allocates exclusive CPUs, memory and devices by the rules of `allocation`, on start() and stop(), and runs no
    containers. It is a context manager, and thread-safe. Like a real kubelet, it removes stopped pods from its files
    late:

    - from cpu_manager_state when a pod is to be admitted, and in each reconcile period
    - from memory_manager_state when a pod is to be admitted
    - from kubelet_internal_checkpoint when a pod is admitted
    """

    def __init__(
        self,
        directory: str | Path,
        zones: Iterable[SimulatedZone],
        config: KubeletConfig = STATIC,
        *,
        devices: Iterable[SimulatedDevice] = (),
        faults: Faults = NO_FAULTS,
        pods_api: bool = False,
        reconcile_period: float = RECONCILE_PERIOD,
    ) -> None:
        """Create a kubelet for zones and devices; `pods_api` also serves the Pods API. serve() opens the sockets.

        `reconcile_period` is in seconds; if it is infinite, call reconcile() instead.
        """
        self.directory = Path(directory)
        self.socket = self.directory / "pod-resources" / "kubelet.sock"
        self.pods_socket = self.directory / "pods-api" / "pods-api.sock"
        self.faults = faults
        """Can be replaced at any time; limits, delay and counts take effect at the next restart."""
        self._managers = ContainerManager(zones, devices, config)
        self._managers.unregister(faults.late_plugins)
        self._pods_api = pods_api
        self._lock = threading.RLock()
        self._calls = Calls(faults)
        self._broadcast = Broadcast(self._lock)
        self._servers: list[grpc.Server] = []
        self._reconcile_period = reconcile_period
        self._stale_cpus = False
        """Whether cpu_manager_state still contains CPUs of stopped pods."""
        self._stopping = threading.Event()

    # --- lifecycle

    def serve(self) -> None:
        """Start to serve, and write the files."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._write_all()
            self._calls = calls = Calls(self.faults)
            methods = {
                "List": calls.unary("List", self._list),
                "GetAllocatableResources": calls.unary("GetAllocatableResources", self._get_allocatable),
            }
            self._servers.append(serve(self.socket, PODRESOURCES_SERVICE, methods))
            if self._pods_api:
                watch = {"WatchPods": self._broadcast.stream(self._first_events)}
                self._servers.append(serve(self.pods_socket, PODS_SERVICE, watch))
        self._stopping = stopping = threading.Event()
        if math.isfinite(self._reconcile_period):
            threading.Thread(target=self._run_reconciler, args=(stopping,), name="reconcile", daemon=True).start()

    def close(self) -> None:
        """Stop serving: connections break and sockets disappear. Pods and files remain, as when a kubelet is killed."""
        self._stopping.set()
        with self._lock:
            servers, self._servers = self._servers, []
        self._calls.end()
        self._broadcast.end()
        for ended in [server.stop(None) for server in servers]:
            ended.wait()
        self.socket.unlink(missing_ok=True)
        self.pods_socket.unlink(missing_ok=True)

    def restart(self) -> None:
        """Close and serve again; the late device plugins in `faults` are unregistered until register()."""
        self.close()
        with self._lock:
            self._managers.unregister(self.faults.late_plugins)
        self.serve()

    def __enter__(self) -> SimulatedKubelet:
        self.serve()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- events on the node

    def start(self, pod: PodSpec) -> None:
        """Admit a pod and allocate its requests; raise DoesNotFit, or ValueError if the UID is in use.

        CPU Manager and Memory Manager remove stopped pods before they compute hints (GetTopologyHints), even if the pod
        is then rejected.
        """
        with self._lock:
            try:
                self._managers.admit(pod)
            except DoesNotFit:
                self._write_cpu_state()
                write_memory_state(self.directory, self._managers)
                raise
            self._write_all()
            self._broadcast.send(
                encode_event(pods_pb2.ADDED, pod, "Pending"), encode_event(pods_pb2.MODIFIED, pod, "Running")
            )

    def stop(self, uid: str) -> None:
        """Remove a pod and free its resources; raise KeyError for an unknown UID.

        The files still contain the pod for a while.
        """
        with self._lock:
            pod = self._managers.remove(uid)
            self._stale_cpus = True
            self._broadcast.send(encode_event(pods_pb2.DELETED, pod))

    def reconcile(self) -> None:
        """Remove the CPUs of stopped pods from cpu_manager_state (cpumanager/cpu_manager.go, reconcileState)."""
        with self._lock:
            if self._stale_cpus:
                self._write_cpu_state()

    def register(self, resource: str) -> None:
        """Register the device plugin of a resource."""
        with self._lock:
            self._managers.register(resource)
            write_device_checkpoint(self.directory, self._managers)

    def calls(self) -> dict[str, int]:
        """Return the number of accepted calls since the last restart, by method."""
        return dict(self._calls.counts)

    def _run_reconciler(self, stopping: threading.Event) -> None:
        while not stopping.wait(self._reconcile_period):
            self.reconcile()

    def _write_cpu_state(self) -> None:
        write_cpu_state(self.directory, self._managers)
        self._stale_cpus = False

    def _write_all(self) -> None:
        self._write_cpu_state()
        write_memory_state(self.directory, self._managers)
        write_device_checkpoint(self.directory, self._managers)

    # --- responses

    def _list(self, _request: bytes, number: int) -> Message | bytes:
        if number <= self.faults.failing_lists:
            raise LookupError("the simulated kubelet is set to fail")
        if number <= self.faults.garbled_lists:
            return _GARBAGE
        if number <= self.faults.empty_lists:
            return encode_list(())
        with self._lock:
            response = encode_list(self._managers.pod_resources())
        if self.faults.ballast and response.pod_resources:
            times = -(-self.faults.ballast // _BALLAST.ByteSize())
            response.pod_resources[0].containers[0].dynamic_resources.extend([_BALLAST] * times)
        return response

    def _get_allocatable(self, _request: bytes, number: int) -> Message:
        if number <= self.faults.empty_allocatable:
            return encode_allocatable(Allocatable())
        with self._lock:
            return encode_allocatable(self._managers.allocatable())

    def _first_events(self) -> list[bytes]:
        with self._lock:
            pods = sorted(self._managers.pods.values(), key=lambda pod: pod.uid)
            events = [encode_event(pods_pb2.ADDED, pod, "Running") for pod in pods]
        return [event.SerializeToString() for event in (*events, encode_event(pods_pb2.INITIAL_SYNC_COMPLETE))]
