"""Network devices, RDMA devices, and which of them belong together."""
