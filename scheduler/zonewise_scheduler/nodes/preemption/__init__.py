"""Preemption for zones: which pods of lower priority must end so that a kubelet admits a pod."""
