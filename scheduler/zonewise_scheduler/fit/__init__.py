"""The fit: what the kubelets will do, foretold exactly, for one pod on one node or for many on the whole cluster."""

from zonewise_scheduler.fit.kubelet.admit import admit
from zonewise_scheduler.fit.kubelet.sentences import sentence

__all__ = ["admit", "sentence"]
