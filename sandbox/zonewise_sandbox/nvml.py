"""A test double of NVML: its GPUs return values from a table, and can fail or be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise.machine.nvml.backend import GPU_IS_LOST, NOT_FOUND, NOT_SUPPORTED, NvmlError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT = 10  # NVML_ERROR_TIMEOUT


class NvmlDevice:
    """A GPU or MIG device: results by the call's name, or by name and arguments if these matter.

    A result that is an NvmlError is raised. A call without a result raises the error NOT_SUPPORTED.
    """

    def __init__(self, results: Mapping[Any, Any], migs: Mapping[int, NvmlDevice] | None = None) -> None:
        """Create a device from its results, and a GPU's MIG devices by index."""
        self.results = dict(results)
        self.migs = dict(migs or {})

    def result(self, name: str, *arguments: object) -> object:
        """Return the result of a call: a value, or an NvmlError."""
        if name == "nvmlDeviceGetMigDeviceHandleByIndex":
            return self.migs.get(int(str(arguments[0])), NvmlError(NOT_FOUND))
        return self.results.get((name, *arguments), self.results.get(name, NvmlError(NOT_SUPPORTED)))


class SimulatedNvml:
    """NVML for some GPUs; it records its calls."""

    def __init__(self, gpus: list[NvmlDevice], system: Mapping[str, Any], start: NvmlError | None = None) -> None:
        """Create the library from the GPUs, the results of calls without a device, and the error of start()."""
        self.gpus = gpus
        self.system = {"nvmlDeviceGetCount": len(gpus), **system}
        self._start = start
        self.lost: set[int] = set()
        """Indices of lost GPUs: they are counted and have a handle, but every other call to them fails."""
        self.events: list[tuple[str | int, ...] | NvmlError] = []
        """The next results of nvmlEventSetWait: an event as in NvmlBackend.call, or an error."""
        self.calls: list[tuple[str, ...]] = []
        """Names and arguments of all calls, without handles."""

    def start(self) -> None:
        """Initialize the library; raise NvmlError if it fails."""
        if self._start is not None:
            raise self._start

    def call(self, name: str, *arguments: object) -> object:
        """Call a function of NVML; raise NvmlError if it fails."""
        self.calls.append((name, *map(str, arguments[1:])))
        result = self._result(name, *arguments)
        if isinstance(result, NvmlError):
            raise result
        return result

    def _result(self, name: str, *arguments: object) -> object:
        if name == "nvmlDeviceGetHandleByIndex":
            return self.gpus[int(str(arguments[0]))]
        if name == "nvmlEventSetWait":
            return self.events.pop(0) if self.events else NvmlError(_TIMEOUT)
        if not arguments:
            return self.system.get(name, NvmlError(NOT_SUPPORTED))
        device = arguments[0]
        if not isinstance(device, NvmlDevice):
            raise TypeError(f"{name}: {device!r} is not a device of this double")
        if device in self.gpus and self.gpus.index(device) in self.lost:
            return NvmlError(GPU_IS_LOST)
        return device.result(name, *arguments[1:])
