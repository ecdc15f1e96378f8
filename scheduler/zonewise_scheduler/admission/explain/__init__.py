"""Why a kubelet rejects a pod, in words."""
