"""The kubelet's reports as values: PodResources over gRPC, its configuration, its state files."""
