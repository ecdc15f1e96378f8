"""A simulated kubelet, for tests, demonstrations and benchmarks.

The gRPC server is imported on demand, since `zonewise up` uses only the managers.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from zonewise_sandbox.kubelet.allocation import DoesNotFit
from zonewise_sandbox.kubelet.types import ContainerSpec, PodSpec, SimulatedDevice, SimulatedZone, even_zones

if TYPE_CHECKING:
    from zonewise_sandbox.kubelet.grpc_server import Faults
    from zonewise_sandbox.kubelet.kubelet import STATIC, SimulatedKubelet

# gRPC's core logs to standard error in its own format at each restart ("Got goaway"). It reads this variable once, when
# it is imported, which only modules below this package do
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

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

_ON_DEMAND = {
    "STATIC": "zonewise_sandbox.kubelet.kubelet",
    "SimulatedKubelet": "zonewise_sandbox.kubelet.kubelet",
    "Faults": "zonewise_sandbox.kubelet.grpc_server",
}


def __getattr__(name: str) -> object:
    """Return a name that is imported on demand (PEP 562)."""
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_DEMAND[name]), name)
