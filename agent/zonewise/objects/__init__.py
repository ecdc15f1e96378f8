"""The machine and its usage as published text: JSON, Kubernetes objects, labels, and a topology file for NCCL."""
