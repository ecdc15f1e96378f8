"""Textual explanations of why a kubelet rejects a pod."""
