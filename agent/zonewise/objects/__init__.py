"""The machine and its usage in published forms: JSON, Kubernetes objects, labels, and a topology file for NCCL."""
