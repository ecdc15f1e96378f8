"""NVML, NVIDIA's management library, asked in a child process so that a driver that hangs cannot hang us."""
