"""What the kubelet says: PodResources over gRPC, its configuration, its state files; as values."""
