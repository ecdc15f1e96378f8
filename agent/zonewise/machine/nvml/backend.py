"""The agent's view of NVML: one call by its C name that returns plain values, or an error with NVML's own number."""

from __future__ import annotations

from typing import Protocol

# nvmlReturn_t of nvml.h
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
LIB_RM_VERSION_MISMATCH = 18
UNKNOWN = 999

_TEXTS = {
    1: "uninitialized",
    INVALID_ARGUMENT: "invalid argument",
    NOT_SUPPORTED: "not supported",
    NO_PERMISSION: "no permission",
    NOT_FOUND: "not found",
    7: "insufficient size",
    8: "insufficient external power",
    DRIVER_NOT_LOADED: "driver not loaded",
    10: "timeout",
    11: "interrupt request issue",
    LIBRARY_NOT_FOUND: "library not found",
    FUNCTION_NOT_FOUND: "function not found",
    14: "corrupted infoROM",
    GPU_IS_LOST: "GPU is lost",
    16: "GPU requires a reset",
    17: "blocked by the operating system",
    LIB_RM_VERSION_MISMATCH: "library and kernel module differ in version",
    19: "in use",
    20: "out of memory",
    21: "no data",
    22: "ECC not supported on a vGPU",
    23: "insufficient resources",
    24: "frequency not supported",
    25: "argument version mismatch",
    26: "deprecated",
    27: "not ready",
    28: "GPU not found",
    29: "invalid state",
    UNKNOWN: "unknown error",
}

_ABSENCES = frozenset({INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND}).union(
    {7, 21, 22, 24, 25, 26, 27, 28, 29}
)
"""Errors that mean that this GPU, driver, library or caller does not have the fact.

Older drivers return InvalidArgument for an unknown field or link, and 25 for a struct of an unknown version. Every
other error is a fault.
"""


class NvmlError(Exception):
    """NVML, or its stand-in, returned an error."""

    def __init__(self, code: int, text: str | None = None) -> None:
        """Wrap an nvmlReturn_t, with a text if NVML's own is too short."""
        super().__init__(text or _TEXTS.get(code, f"error {code}"))
        self.code = code

    @property
    def is_absence(self) -> bool:
        """Return whether the error means that the fact does not exist, and not that something has failed."""
        return self.code in _ABSENCES


class NvmlBackend(Protocol):
    """NVML, or a stand-in from the tests."""

    def start(self) -> None:
        """Load and initialize the library; raise NvmlError."""
        ...

    def call(self, name: str, *arguments: object) -> object:
        """Call an NVML function by its name without a version suffix; raise NvmlError.

        Arguments are those of the C function without its outputs. Handles are opaque. An output is a number or a
        text; several outputs form a tuple. No output is a struct:

        - nvmlDeviceGetPciInfo, nvmlDeviceGetNvLinkRemotePciInfo: the bus id;
        - nvmlDeviceGetMemoryInfo: the total bytes;
        - nvmlDeviceGetAttributes: the nine fields in the order of the struct;
        - nvmlDeviceGetMemoryAffinity(handle, words, scope): the 64-bit words;
        - nvmlDeviceGetFieldValues(handle, field): the value of that one field, or its own error;
        - nvmlEventSetWait(set, milliseconds): the bus id, the type and the data of the event, its GPU instance and its
          compute instance;
        - nvmlDeviceGetGpuFabricInfo(handle): the UUID as 32 hexadecimal digits, status, clique, state;
        - nvmlDeviceGetGpuFabricInfoV(handle, version): the same; from version 2 on also the health mask, from version 3
          on also the health summary.
        """
        ...
