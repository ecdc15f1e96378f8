"""The fit: what the kubelets will do, foretold exactly, for one pod on one node or for many on the whole cluster."""
