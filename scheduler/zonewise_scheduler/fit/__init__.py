"""The fit: what the kubelets will do, foretold exactly, for one pod on one node or for many on the whole cluster."""

from zonewise_scheduler.fit.kubelet.admit import admit
from zonewise_scheduler.fit.kubelet.sentences import sentence
from zonewise_scheduler.fit.model.cpus import CpuTopology
from zonewise_scheduler.fit.model.node import DeviceClass, NodeKind, NodeState, Policies, Room
from zonewise_scheduler.fit.model.pod import Container, PodLevel, PodShape
from zonewise_scheduler.fit.model.verdict import Assignment, DeviceShare, MemoryShare, Verdict

__all__ = [
    "Assignment",
    "Container",
    "CpuTopology",
    "DeviceClass",
    "DeviceShare",
    "MemoryShare",
    "NodeKind",
    "NodeState",
    "PodLevel",
    "PodShape",
    "Policies",
    "Room",
    "Verdict",
    "admit",
    "sentence",
]
