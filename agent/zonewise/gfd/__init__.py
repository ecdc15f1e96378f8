"""The agent's reader of GPU Feature Discovery's input on a node: the configuration of NVIDIA's device plugin."""
