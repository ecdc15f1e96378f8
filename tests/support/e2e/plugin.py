"""Device plugins for imaginary hardware. They register with a kubelet as real ones do (device plugin API v1beta1)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import grpc

from support.e2e.protocol import device_plugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_REGISTER_SECONDS = 5.0


class Device(NamedTuple):
    """A device as a plugin advertises it."""

    id: str
    zones: tuple[int, ...] | None = None
    """None: the message has no topology. Empty: a topology without nodes. (-1,): how some plugins express "no NUMA
    node"."""
    healthy: bool = True


class Plugin:
    """A plugin for one resource; it is registered inside a `with` block."""

    def __init__(self, directory: Path, resource: str, devices: Iterable[Device]) -> None:
        """Create a plugin that will serve in the kubelet's directory for device plugins."""
        self.resource = resource
        self.devices = tuple(devices)
        self._directory = directory
        self._socket = resource.replace("/", "-") + ".sock"
        self._changed = threading.Condition()
        self._server: grpc.Server | None = None

    def __enter__(self) -> Plugin:
        self.register()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def register(self) -> None:
        """Serve on a new socket and register it with the kubelet. A kubelet forgets all plugins when it starts."""
        self.stop()
        (self._directory / self._socket).unlink(missing_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(4, self._socket))
        self._server.add_generic_rpc_handlers([self._service()])
        self._server.add_insecure_port(f"unix://{self._directory / self._socket}")
        self._server.start()
        request = api.RegisterRequest(
            version="v1beta1", endpoint=self._socket, resource_name=self.resource, options=api.DevicePluginOptions()
        )
        with grpc.insecure_channel(f"unix://{self._directory / 'kubelet.sock'}") as channel:
            register = channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=api.RegisterRequest.SerializeToString,
                response_deserializer=api.Empty.FromString,
            )
            register(request, timeout=_REGISTER_SECONDS, wait_for_ready=True)

    def stop(self) -> None:
        """End all calls and stop serving."""
        if self._server:
            self._server.stop(grace=None).wait()
            self._server = None

    def change(self, devices: Iterable[Device]) -> None:
        """Advertise other devices, or another health of the same devices."""
        with self._changed:
            self.devices = tuple(devices)
            self._changed.notify_all()

    def _watch(self, _: api.Empty, context: grpc.ServicerContext) -> Iterator[api.ListAndWatchResponse]:
        context.add_callback(self._wake)
        sent: tuple[Device, ...] | None = None
        while context.is_active():
            with self._changed:
                if sent == self.devices:
                    self._changed.wait()
                devices = self.devices
            if devices != sent:
                sent = devices
                yield api.ListAndWatchResponse(devices=[_message(device) for device in sent])

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _service(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "v1beta1.DevicePlugin",
            {
                "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                    _options, api.Empty.FromString, api.DevicePluginOptions.SerializeToString
                ),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._watch, api.Empty.FromString, api.ListAndWatchResponse.SerializeToString
                ),
                "Allocate": grpc.unary_unary_rpc_method_handler(
                    _allocate, api.AllocateRequest.FromString, api.AllocateResponse.SerializeToString
                ),
            },
        )


def _message(device: Device) -> api.Device:
    health = "Healthy" if device.healthy else "Unhealthy"
    if device.zones is None:
        return api.Device(ID=device.id, health=health)
    nodes = [api.NUMANode(ID=zone) for zone in device.zones]
    return api.Device(ID=device.id, health=health, topology=api.TopologyInfo(nodes=nodes))


def _options(_: api.Empty, __: grpc.ServicerContext) -> api.DevicePluginOptions:
    return api.DevicePluginOptions()


def _allocate(request: api.AllocateRequest, _: grpc.ServicerContext) -> api.AllocateResponse:
    return api.AllocateResponse(
        container_responses=[api.ContainerAllocateResponse() for _ in request.container_requests]
    )
