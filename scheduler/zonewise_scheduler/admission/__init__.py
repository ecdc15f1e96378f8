"""An exact model of how a kubelet admits one pod: pkg/kubelet/cm as functions over values."""

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.explain.rejection import explain_rejection

__all__ = ["admit", "explain_rejection"]
