"""Network devices, RDMA devices, and which belong together."""
