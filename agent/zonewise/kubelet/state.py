"""The kubelet's state files together: each is read at most once, and not at all while it is unchanged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from zonewise.kubelet import files
from zonewise.kubelet.checkpoint import ParsedCheckpoint
from zonewise.kubelet.cpu_manager_state import parse_cpu_manager_state
from zonewise.kubelet.device_checkpoint import parse_device_checkpoint
from zonewise.kubelet.dra_manager_state import parse_dra_manager_state
from zonewise.kubelet.memory_manager_state import parse_memory_manager_state
from zonewise.kubelet.types import StateFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.kubelet.files import Signature

CPU_STATE = "cpu_manager_state"
MEMORY_STATE = "memory_manager_state"
DRA_STATE = "dra_manager_state"
DEVICE_PLUGINS = "device-plugins"
DEVICE_CHECKPOINT = "kubelet_internal_checkpoint"

T = TypeVar("T")


class StateReading(NamedTuple):
    """The content of the files, with their problems."""

    files: StateFiles
    problems: tuple[str, ...]
    """Sentences that name the file, the field and the value."""


def device_checkpoint_path(directory: str) -> str:
    """Return the path of the device checkpoint of a kubelet with this root directory."""
    return os.path.join(directory, DEVICE_PLUGINS, DEVICE_CHECKPOINT)


class StateReader:
    """Reads the state files of one kubelet repeatedly.

    An absent file is None without a problem: a disabled manager writes none. An unreadable, empty or damaged file is
    None with a problem. A damaged entry is skipped.
    """

    def __init__(self, directory: str) -> None:
        self._cpu = _File(os.path.join(directory, CPU_STATE), parse_cpu_manager_state)
        self._memory = _File(os.path.join(directory, MEMORY_STATE), parse_memory_manager_state)
        self._devices = _File(device_checkpoint_path(directory), parse_device_checkpoint)
        self._claims = _File(os.path.join(directory, DRA_STATE), parse_dra_manager_state)

    def read(self) -> StateReading:
        """Return the current content of the files; for an unchanged file, the same value object again."""
        cpu, memory, devices, claims = (
            self._cpu.read(),
            self._memory.read(),
            self._devices.read(),
            self._claims.read(),
        )
        files = StateFiles(cpu.value, memory.value, devices.value, claims.value)
        return StateReading(files, (*cpu.problems, *memory.problems, *devices.problems, *claims.problems))


class _File(Generic[T]):
    """One file, and its content at the last reading."""

    def __init__(self, path: str, parse: Callable[[bytes, str], ParsedCheckpoint[T]]) -> None:
        self._path = path
        self._parse = parse
        self._signature: Signature | None = None
        self._parsed: ParsedCheckpoint[T] = ParsedCheckpoint(None)

    def read(self) -> ParsedCheckpoint[T]:
        if self._signature is not None and files.signature(self._path) == self._signature:
            return self._parsed
        self._signature = None
        try:
            content, self._signature = files.read(self._path)
        except FileNotFoundError:
            self._parsed = ParsedCheckpoint(None)
        except OSError as error:
            self._parsed = ParsedCheckpoint(None, (f"{self._path}: cannot be read: {error.strerror}",))
        else:
            self._parsed = self._parse(content, self._path)
        return self._parsed
