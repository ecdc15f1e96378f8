"""What leaves zonewise as text: the machine as JSON, as Kubernetes objects and labels, as a topology for NCCL."""
