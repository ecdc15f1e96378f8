"""A simulated kubelet, for tests, demonstrations and benchmarks; nothing of the agent imports it."""

from zonewise.kubelet.simulated.kubelet import STATIC, SimulatedKubelet
from zonewise.kubelet.simulated.node import ContainerSpec, PodSpec, SimulatedDevice, SimulatedZone, even_zones
from zonewise.kubelet.simulated.packing import DoesNotFit
from zonewise.kubelet.simulated.server import Faults

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
