"""The real NVML, through nvidia-ml-py (imported as pynvml), with workarounds for that package's pitfalls.

Its functions return different types: a number, a list, bytes or text, or a ctypes struct that the caller must read or
even create. This module returns a number, a text, or a tuple of these; see NvmlBackend.call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from zonewise.machine.nvml.backend import FUNCTION_NOT_FOUND, LIBRARY_NOT_FOUND, UNKNOWN, NvmlError

if TYPE_CHECKING:
    from collections.abc import Callable

    # pynvml has no type annotations
    Pynvml: TypeAlias = Any
    Handle: TypeAlias = Any
    Value: TypeAlias = Any

_NO_PACKAGE = "the Python package nvidia-ml-py is not installed (it comes with zonewise[agent])"
_NO_GPUS = 1  # NVML_INIT_FLAG_NO_GPUS: a machine without a GPU is not a failure
_VALUE_FIELDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The members of the union nvmlValue_t, by nvmlValueType_t."""


class LibraryBackend:
    """NVML of this machine, in this process. Use it only in a child process: a call may never return."""

    def __init__(self) -> None:
        self._pynvml: Pynvml = None

    def start(self) -> None:
        """Load and initialize the library; see NvmlBackend."""
        try:
            self._pynvml = import_module("pynvml")
        except ImportError:
            raise NvmlError(LIBRARY_NOT_FOUND, _NO_PACKAGE) from None
        self.call("nvmlInitWithFlags", _NO_GPUS)

    def call(self, name: str, *arguments: object) -> object:
        """Call an NVML function; see NvmlBackend."""
        try:
            if adapted := _ADAPTED.get(name):
                return adapted(self._pynvml, *arguments)
            return _plain(getattr(self._pynvml, name)(*arguments))
        except self._pynvml.NVMLError as error:
            raise NvmlError(int(error.value)) from None
        except AttributeError as error:
            # the function or struct is newer than the package
            raise NvmlError(FUNCTION_NOT_FOUND, f"nvidia-ml-py is too old: {error}") from None
        except UnicodeDecodeError as error:
            raise NvmlError(UNKNOWN, f"the response is not text: {error.object[:20]!r}") from None


def _plain(value: Value) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def _bus_id(pynvml: Pynvml, handle: Handle) -> Value:
    return _plain(pynvml.nvmlDeviceGetPciInfo(handle).busId)


def _remote_bus_id(pynvml: Pynvml, handle: Handle, link: int) -> Value:
    return _plain(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)


def _memory(pynvml: Pynvml, handle: Handle) -> Value:
    return pynvml.nvmlDeviceGetMemoryInfo(handle).total


def _module_id(pynvml: Pynvml, handle: Handle) -> Value:
    from ctypes import c_uint

    # without an argument the package writes into a single object of its own, which all callers then share
    return pynvml.nvmlDeviceGetModuleId(handle, c_uint())


def _cuda_version(pynvml: Pynvml) -> Value:
    # the second version never loads CUDA itself
    return pynvml.nvmlSystemGetCudaDriverVersion_v2()


def _attributes(pynvml: Pynvml, device: Handle) -> Value:
    attributes = pynvml.nvmlDeviceGetAttributes_v2(device)
    names: list[str] = [name for name, *_ in attributes._fields_]
    return tuple(getattr(attributes, name) for name in names)


def _event(pynvml: Pynvml, events: Value, milliseconds: int) -> Value:
    data = pynvml.nvmlEventSetWait_v2(events, milliseconds)
    instances = int(data.gpuInstanceId), int(data.computeInstanceId)
    return _bus_id(pynvml, data.device), int(data.eventType), int(data.eventData), *instances


def _affinity(pynvml: Pynvml, handle: Handle, words: int, scope: int) -> Value:
    return tuple(pynvml.nvmlDeviceGetMemoryAffinity(handle, words, scope))


def _event_reasons(pynvml: Pynvml, handle: Handle) -> Value:
    try:
        return pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except pynvml.NVMLError as error:
        if error.value != FUNCTION_NOT_FOUND:
            raise
        return pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)  # its name before driver 535


def _field(pynvml: Pynvml, handle: Handle, field: int) -> Value:
    value = pynvml.nvmlDeviceGetFieldValues(handle, [field])[0]
    if value.nvmlReturn:
        raise NvmlError(int(value.nvmlReturn))
    if not 0 <= value.valueType < len(_VALUE_FIELDS):
        raise NvmlError(UNKNOWN, f"field {field} has a value of unknown type {value.valueType}")
    member: str = _VALUE_FIELDS[int(value.valueType)]
    return int(getattr(value.value, member))


def _fabric_versioned(pynvml: Pynvml, handle: Handle, version: int) -> Value:
    # the constructors of these structs fill in the version that the call checks
    info = getattr(pynvml, f"c_nvmlGpuFabricInfo_v{version}_t")()
    return _fabric(info, handle, pynvml.nvmlDeviceGetGpuFabricInfoV)


def _fabric_first(pynvml: Pynvml, handle: Handle) -> Value:
    return _fabric(pynvml.c_nvmlGpuFabricInfo_t(), handle, pynvml.nvmlDeviceGetGpuFabricInfo)


def _fabric(info: Value, handle: Handle, call: Callable[..., Value]) -> Value:
    from ctypes import byref

    call(handle, byref(info))
    health: list[Value] = [getattr(info, name) for name in ("healthMask", "healthSummary") if hasattr(info, name)]
    return (bytes(info.clusterUuid).hex(), info.status, info.cliqueId, info.state, *health)


_ADAPTED: dict[str, Callable[..., Value]] = {
    "nvmlSystemGetCudaDriverVersion": _cuda_version,
    "nvmlDeviceGetPciInfo": _bus_id,
    "nvmlDeviceGetNvLinkRemotePciInfo": _remote_bus_id,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetModuleId": _module_id,
    "nvmlDeviceGetAttributes": _attributes,
    "nvmlDeviceGetMemoryAffinity": _affinity,
    "nvmlDeviceGetCurrentClocksEventReasons": _event_reasons,
    "nvmlDeviceGetFieldValues": _field,
    "nvmlEventSetWait": _event,
    "nvmlDeviceGetGpuFabricInfoV": _fabric_versioned,
    "nvmlDeviceGetGpuFabricInfo": _fabric_first,
}
"""The functions that return a struct to be read, or that need an argument created for them."""
