"""A simulated kubelet, for tests, demonstrations and benchmarks."""

from zonewise_sandbox.kubelet.allocation import DoesNotFit
from zonewise_sandbox.kubelet.grpc_server import Faults
from zonewise_sandbox.kubelet.kubelet import STATIC, SimulatedKubelet
from zonewise_sandbox.kubelet.types import ContainerSpec, PodSpec, SimulatedDevice, SimulatedZone, even_zones

__all__ = [
    "STATIC",
    "ContainerSpec",
    "DoesNotFit",
    "Faults",
    "PodSpec",
    "SimulatedDevice",
    "SimulatedKubelet",
    "SimulatedZone",
    "even_zones",
]
