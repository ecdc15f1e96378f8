"""kube-scheduler's filters that need nothing but nodes and pods."""
