"""One kubelet's admission of one pod: its managers' decisions, foretold (pkg/kubelet/cm)."""
