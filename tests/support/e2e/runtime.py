"""A container runtime that runs nothing but responds to a kubelet over the Container Runtime Interface v1.

A container runs from its start until it is stopped or `finish` ends it. A container whose command is `exit N` ends with
that code as soon as it starts, as the init containers of the tests do.
"""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from support.e2e.protocol import cri_pb2 as cri

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from google.protobuf.message import Message

_WORKERS = 8  # a kubelet sends requests for several pods at once, and no call waits for another one


class _Container(NamedTuple):
    sandbox: str
    config: cri.ContainerConfig
    status: cri.ContainerStatus


class Runtime:
    """The runtime; it serves on a unix socket inside a `with` block."""

    def __init__(self, socket: Path) -> None:
        """Create a runtime that will serve on a socket."""
        self.endpoint = f"unix://{socket}"
        self.ready = True
        """Whether it reports that it is ready. A kubelet checks at its start and then every 5 s, and starts nothing
        before."""
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._sandboxes: dict[str, cri.PodSandboxStatus] = {}
        self._containers: dict[str, _Container] = {}
        self._server = grpc.server(ThreadPoolExecutor(_WORKERS, "runtime"))
        self._server.add_generic_rpc_handlers(
            [_service("runtime.v1.RuntimeService", self._runtime()), _service("runtime.v1.ImageService", _IMAGES)]
        )
        self._server.add_insecure_port(self.endpoint)

    def __enter__(self) -> Runtime:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(grace=None).wait()

    def running(self) -> set[tuple[str, str]]:
        """Return the names of running containers as (pod, container)."""
        with self._lock:
            return {
                (self._sandboxes[container.sandbox].metadata.name, container.status.metadata.name)
                for container in self._containers.values()
                if container.status.state == cri.CONTAINER_RUNNING
            }

    def finish(self, pod: str, container: str, code: int = 0) -> None:
        """End a running container as if by itself. Raises LookupError if no container has these names."""
        with self._lock:
            for held in self._containers.values():
                names = self._sandboxes[held.sandbox].metadata.name, held.status.metadata.name
                if names == (pod, container) and held.status.state == cri.CONTAINER_RUNNING:
                    return _end(held.status, code)
        raise LookupError(f"no container {container} of pod {pod} is running")

    def _runtime(self) -> Mapping[str, tuple[type[Message], Callable[[Any], Message]]]:
        return {
            "Version": (cri.Empty, _version),
            "Status": (cri.Empty, self._status),
            "RuntimeConfig": (cri.Empty, _runtime_config),
            "RunPodSandbox": (cri.RunPodSandboxRequest, self._run_sandbox),
            "StopPodSandbox": (cri.PodSandboxId, self._stop_sandbox),
            "RemovePodSandbox": (cri.PodSandboxId, self._remove_sandbox),
            "PodSandboxStatus": (cri.PodSandboxId, self._sandbox_status),
            "ListPodSandbox": (cri.ListPodSandboxRequest, self._list_sandboxes),
            "CreateContainer": (cri.CreateContainerRequest, self._create),
            "StartContainer": (cri.ContainerId, self._start),
            "StopContainer": (cri.ContainerId, self._stop),
            "RemoveContainer": (cri.ContainerId, self._remove),
            "ContainerStatus": (cri.ContainerId, self._container_status),
            "ListContainers": (cri.ListContainersRequest, self._list_containers),
            # calls that a kubelet makes after an allocation; nothing runs here that could be confined
            **dict.fromkeys(("UpdateContainerResources", "UpdateRuntimeConfig", "ReopenContainerLog"), _NOTHING),
            # calls for which a kubelet tolerates an empty message: no statistics
            **dict.fromkeys(("ListContainerStats", "ListPodSandboxStats", "ListPodSandboxMetrics"), _NOTHING),
        }

    def _status(self, _: cri.Empty) -> cri.StatusResponse:
        ready = [cri.RuntimeCondition(type=name, status=self.ready) for name in ("RuntimeReady", "NetworkReady")]
        return cri.StatusResponse(status=cri.RuntimeStatus(conditions=ready))

    def _run_sandbox(self, request: cri.RunPodSandboxRequest) -> cri.PodSandboxId:
        config, name = request.config, f"sandbox-{next(self._numbers)}"
        with self._lock:
            self._sandboxes[name] = cri.PodSandboxStatus(
                id=name,
                metadata=config.metadata,
                created_at=time.time_ns(),
                network=cri.PodSandboxNetworkStatus(ip="127.0.0.1"),
                linux=cri.LinuxPodSandboxStatus(
                    namespaces=cri.Namespace(options=config.linux.security_context.namespace_options)
                ),
                labels=config.labels,
                annotations=config.annotations,
            )
        return cri.PodSandboxId(pod_sandbox_id=name)

    def _stop_sandbox(self, request: cri.PodSandboxId) -> cri.Empty:
        with self._lock:
            if sandbox := self._sandboxes.get(request.pod_sandbox_id):
                sandbox.state = cri.SANDBOX_NOTREADY
            for container in self._containers.values():
                if container.sandbox == request.pod_sandbox_id and container.status.state == cri.CONTAINER_RUNNING:
                    _end(container.status, 137)
        return cri.Empty()

    def _remove_sandbox(self, request: cri.PodSandboxId) -> cri.Empty:
        with self._lock:
            self._sandboxes.pop(request.pod_sandbox_id, None)
            for name in [name for name, held in self._containers.items() if held.sandbox == request.pod_sandbox_id]:
                del self._containers[name]
        return cri.Empty()

    def _sandbox_status(self, request: cri.PodSandboxId) -> cri.PodSandboxStatusResponse:
        with self._lock:
            return cri.PodSandboxStatusResponse(status=self._sandboxes[request.pod_sandbox_id])

    def _list_sandboxes(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        with self._lock:
            items = [_sandbox_item(status) for status in self._sandboxes.values() if _passes(status, request.filter)]
        return cri.ListPodSandboxResponse(items=items)

    def _create(self, request: cri.CreateContainerRequest) -> cri.ContainerId:
        config, name = request.config, f"container-{next(self._numbers)}"
        status = cri.ContainerStatus(
            id=name,
            metadata=config.metadata,
            created_at=time.time_ns(),
            image=config.image,
            image_ref=config.image.image,
            labels=config.labels,
            annotations=config.annotations,
            # never empty: a kubelet that removes the container removes every file whose path has this prefix
            log_path=f"{request.sandbox_config.log_directory}/{config.log_path}",
        )
        with self._lock:
            self._containers[name] = _Container(request.pod_sandbox_id, config, status)
        return cri.ContainerId(container_id=name)

    def _start(self, request: cri.ContainerId) -> cri.Empty:
        with self._lock:
            container = self._containers[request.container_id]
            container.status.state, container.status.started_at = cri.CONTAINER_RUNNING, time.time_ns()
            match list(container.config.command):
                case ["exit", code]:
                    _end(container.status, int(code))
                case _:
                    pass
        return cri.Empty()

    def _stop(self, request: cri.ContainerId) -> cri.Empty:
        with self._lock:
            container = self._containers.get(request.container_id)
            if container and container.status.state == cri.CONTAINER_RUNNING:
                _end(container.status, 137)
        return cri.Empty()

    def _remove(self, request: cri.ContainerId) -> cri.Empty:
        with self._lock:
            self._containers.pop(request.container_id, None)
        return cri.Empty()

    def _container_status(self, request: cri.ContainerId) -> cri.ContainerStatusResponse:
        with self._lock:
            return cri.ContainerStatusResponse(status=self._containers[request.container_id].status)

    def _list_containers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
        wanted = request.filter
        with self._lock:
            items = [
                _container_item(container)
                for container in self._containers.values()
                if _passes(container.status, wanted) and wanted.pod_sandbox_id in ("", container.sandbox)
            ]
        return cri.ListContainersResponse(containers=items)


def _end(status: cri.ContainerStatus, code: int) -> None:
    status.state, status.finished_at, status.exit_code = cri.CONTAINER_EXITED, time.time_ns(), code
    status.reason = "Error" if code else "Completed"


def _passes(
    status: cri.PodSandboxStatus | cri.ContainerStatus, wanted: cri.PodSandboxFilter | cri.ContainerFilter
) -> bool:
    """Return whether a filter matches: all fields that the filter sets must be equal."""
    if wanted.id not in ("", status.id) or (wanted.HasField("state") and wanted.state.state != status.state):
        return False
    return all(status.labels.get(key) == value for key, value in wanted.label_selector.items())


def _sandbox_item(status: cri.PodSandboxStatus) -> cri.PodSandbox:
    return cri.PodSandbox(
        id=status.id,
        metadata=status.metadata,
        state=status.state,
        created_at=status.created_at,
        labels=status.labels,
        annotations=status.annotations,
    )


def _container_item(container: _Container) -> cri.Container:
    status = container.status
    return cri.Container(
        id=status.id,
        pod_sandbox_id=container.sandbox,
        metadata=status.metadata,
        image=status.image,
        image_ref=status.image_ref,
        state=status.state,
        created_at=status.created_at,
        labels=status.labels,
        annotations=status.annotations,
    )


def _version(_: cri.Empty) -> cri.VersionResponse:
    return cri.VersionResponse(version="0.1.0", runtime_name="fake", runtime_version="1", runtime_api_version="v1")


def _runtime_config(_: cri.Empty) -> cri.RuntimeConfigResponse:
    return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CGROUPFS))


def _nothing(_: cri.Empty) -> cri.Empty:
    return cri.Empty()


def _image_status(request: cri.ImageRequest) -> cri.ImageStatusResponse:
    name = request.image.image
    return cri.ImageStatusResponse(image=cri.Image(id=name, repo_tags=[name], size=1))


def _pull(request: cri.ImageRequest) -> cri.PullImageResponse:
    return cri.PullImageResponse(image_ref=request.image.image)


def _image_disk(_: cri.Empty) -> cri.ImageFsInfoResponse:
    usage = cri.FilesystemUsage(
        timestamp=time.time_ns(),
        fs_id=cri.FilesystemIdentifier(mountpoint="/"),
        used_bytes=cri.UInt64Value(value=1),
        inodes_used=cri.UInt64Value(value=1),
    )
    return cri.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])


def _no_images(_: cri.Empty) -> cri.ListImagesResponse:
    return cri.ListImagesResponse()


_NOTHING = (cri.Empty, _nothing)
_IMAGES: Mapping[str, tuple[type[Message], Callable[[Any], Message]]] = {
    "ListImages": (cri.Empty, _no_images),
    "ImageStatus": (cri.ImageRequest, _image_status),
    "PullImage": (cri.ImageRequest, _pull),
    "ImageFsInfo": (cri.Empty, _image_disk),
}


def _service(
    name: str, methods: Mapping[str, tuple[type[Message], Callable[[Any], Message]]]
) -> grpc.GenericRpcHandler:
    """Return a handler for methods with one request and one response each, under the name of a service."""
    return grpc.method_handlers_generic_handler(
        name, {method: _method(kind, answer) for method, (kind, answer) in methods.items()}
    )


def _method(kind: type[Message], answer: Callable[[Any], Message]) -> grpc.RpcMethodHandler[Any, Message]:
    def call(request: Any, context: grpc.ServicerContext) -> Message:
        try:
            return answer(request)
        except KeyError as error:  # removed meanwhile
            context.abort(grpc.StatusCode.NOT_FOUND, f"nothing has the id {error}")

    return grpc.unary_unary_rpc_method_handler(call, kind.FromString, lambda message: message.SerializeToString())
