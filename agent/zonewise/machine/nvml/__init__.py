"""NVML, NVIDIA's management library, called in a child process so that a blocked driver cannot block discovery."""
