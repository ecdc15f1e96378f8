"""The real package and its pitfalls: absent, too old, or with results in several forms."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from zonewise.machine.nvml.backend import FUNCTION_NOT_FOUND, NOT_SUPPORTED, UNKNOWN, NvmlError
from zonewise.machine.nvml.library import LibraryBackend
from zonewise.machine.nvml.queries import collect_nvml


class PackageError(Exception):
    """A stand-in for pynvml.NVMLError."""

    def __init__(self, value: int) -> None:
        self.value = value


class Package(ModuleType):
    """A stand-in for pynvml."""

    NVMLError = PackageError

    def __init__(self, **functions: Any) -> None:
        super().__init__("pynvml")
        self.flags: list[int] = []
        self.__dict__.update({f"nvmlDeviceGet{name}": function for name, function in functions.items()})

    def nvmlInitWithFlags(self, flags: int) -> None:  # noqa: N802 -- the package's name
        self.flags.append(flags)


class Value:
    """A struct."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def start_backend(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> LibraryBackend:
    """Return the backend over a package with some functions."""
    package = Package(**functions)
    monkeypatch.setitem(sys.modules, "pynvml", package)
    backend = LibraryBackend()
    backend.start()
    assert package.flags == [1]
    return backend


def failing(code: int) -> Any:
    """Return a function that raises an error."""

    def function(*_: object) -> None:
        raise PackageError(code)

    return function


def returning(returned: Any) -> Any:
    """Return a function that returns a value, whatever its arguments."""

    def function(*_: object) -> Any:
        return returned

    return function


def damaged_text(*_: object) -> str:
    """Raise the error with which the package fails to decode a text."""
    return b"\xff\xfe".decode()


def test_without_the_package_the_problem_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is an optional dependency, so it may be missing."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    problem = collect_nvml(LibraryBackend()).problem or ""
    assert problem.startswith(
        "NVML cannot be used: the Python package nvidia-ml-py is not installed (it comes with zonewise[agent])"
    )


def test_errors_keep_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package has a class for each error; the agent's error has its number."""
    backend = start_backend(monkeypatch, Name=failing(NOT_SUPPORTED))
    with pytest.raises(NvmlError) as error:
        backend.call("nvmlDeviceGetName", object())
    assert error.value.code == NOT_SUPPORTED


def test_a_function_that_the_package_lacks_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older package is like an older library: the fact is absent, and nothing fails."""
    backend = start_backend(monkeypatch)
    for name in ("nvmlDeviceGetAddressingMode", "nvmlDeviceGetGpuFabricInfo"):
        with pytest.raises(NvmlError, match="nvidia-ml-py is too old") as error:
            backend.call(name, object())
        assert error.value.code == FUNCTION_NOT_FOUND
        assert error.value.is_absence


def test_bytes_and_lists_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions return bytes, text or lists; the backend returns text and tuples."""
    backend = start_backend(
        monkeypatch,
        GspFirmwareVersion=returning(b"570.1\xff"),
        EccMode=returning([1, 0]),
        PciInfo=returning(Value(busId=b"00000000:3B:00.0")),
        Name=returning("text"),
    )
    assert backend.call("nvmlDeviceGetGspFirmwareVersion", 1) == "570.1\\xff"
    assert backend.call("nvmlDeviceGetEccMode", 1) == (1, 0)
    assert backend.call("nvmlDeviceGetPciInfo", 1) == "00000000:3B:00.0"
    assert backend.call("nvmlDeviceGetName", 1) == "text"


def test_text_that_the_package_cannot_decode_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package decodes names itself, and raises an error if they are damaged."""
    backend = start_backend(monkeypatch, Name=damaged_text)
    with pytest.raises(NvmlError, match="not text") as error:
        backend.call("nvmlDeviceGetName", 1)
    assert error.value.code == UNKNOWN


def test_the_older_name_of_a_function_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Throttle reasons had another name before driver 535; any other error is still raised."""
    old = {"CurrentClocksThrottleReasons": returning(8)}
    call = "nvmlDeviceGetCurrentClocksEventReasons"
    backend = start_backend(monkeypatch, CurrentClocksEventReasons=failing(FUNCTION_NOT_FOUND), **old)
    assert backend.call(call, 1) == 8
    backend = start_backend(monkeypatch, CurrentClocksEventReasons=failing(NOT_SUPPORTED), **old)
    with pytest.raises(NvmlError, match="not supported"):
        backend.call(call, 1)


@pytest.mark.parametrize(("kind", "member"), [(1, "uiVal"), (3, "ullVal"), (5, "siVal"), (6, "usVal"), (0, "dVal")])
def test_fields_are_read_by_their_type(monkeypatch: pytest.MonkeyPatch, kind: int, member: str) -> None:
    """The value is a union, of which only one member is valid."""
    field = Value(nvmlReturn=0, valueType=kind, value=Value(**{member: 4}))
    assert start_backend(monkeypatch, FieldValues=returning([field])).call("nvmlDeviceGetFieldValues", 1, 230) == 4


def test_a_field_has_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call succeeds although the field is unknown; an unknown type is an error too."""
    for field, words in (
        (Value(nvmlReturn=2, valueType=1), "invalid argument"),
        (Value(nvmlReturn=0, valueType=9), "unknown type 9"),
    ):
        backend = start_backend(monkeypatch, FieldValues=returning([field]))
        with pytest.raises(NvmlError, match=words):
            backend.call("nvmlDeviceGetFieldValues", 1, 230)


def test_each_query_gets_a_fresh_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some functions of the package have one object as their default argument, shared by all callers."""
    arguments: list[object] = []

    def module_id(_: object, into: object = None) -> int:
        arguments.append(into)
        return len(arguments)

    backend = start_backend(monkeypatch, ModuleId=module_id)
    assert [backend.call("nvmlDeviceGetModuleId", 1) for _ in range(2)] == [1, 2]
    assert None not in arguments
    assert arguments[0] is not arguments[1]
