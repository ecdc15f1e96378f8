"""Why the CPU Manager gives nothing."""

from __future__ import annotations


class CpuAllocationError(Exception):
    """The static policy cannot give the CPUs; the message is its own."""
