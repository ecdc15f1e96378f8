"""Preemption for zones: selects the pods of lower priority that must end so that a kubelet admits a pod."""
