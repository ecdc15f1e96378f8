"""The fit: what the kubelets will do, foretold exactly, for one pod on one node or for many on the whole cluster."""

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.explain.rejection import explain_rejection

__all__ = ["admit", "explain_rejection"]
