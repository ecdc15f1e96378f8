"""Annotations under which the extender and the controller record facts about a pod, and commands read them."""

from __future__ import annotations

PREDICTED_ADMISSION = "zonewise.dev/predicted-admission"
"""Zones and CPUs that the kubelet is predicted to assign to each container."""
LEFT_TO_KUBE_SCHEDULER = "zonewise.dev/left-to-kube-scheduler"
"""Why the controller does not bind a pod although its queue requests binding."""
