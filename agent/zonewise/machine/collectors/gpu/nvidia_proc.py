"""What NVIDIA's driver prints in /proc/driver/nvidia, without NVML: its version, and a few facts of each GPU.

nv-procfs.c of the open kernel modules. Every line ends in a newline, so text behind the last newline is a line that was
cut.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.reader import Reader

PROC = "proc/driver/nvidia"

# NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ...
# NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build ...
_VERSION = re.compile(r"Kernel Module\s.*?\b(\d{1,4}(?:\.\d{1,4}){1,2})\s")


def driver_version(read: Reader) -> str | None:
    """Return the version of the loaded kernel module; None where the file lacks it."""
    path = f"{PROC}/version"
    content = read.raw(path)
    if content is None:
        return read.text("sys/module/nvidia/version")
    text = content.decode("utf-8", "backslashreplace")
    if match := _VERSION.search(text):
        return match[1]
    read.problem(path, f"names no version: {text[:60]!r}", "the driver's version is unknown")
    return None


def information_path(address: str) -> str:
    """Return the file in which the driver describes a GPU."""
    return f"{PROC}/gpus/{address}/information"


def information(read: Reader, addresses: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return by address the driver's facts of each GPU: "Model", "GPU UUID", "Device Minor" and others.

    The driver prints the same lines for every GPU, so a line that only some GPUs have was lost for the rest.
    """
    printed_by_address = {address: _printed(read, information_path(address)) for address in addresses}
    every = set[str]().union(*printed_by_address.values())
    for address, printed in printed_by_address.items():
        if lacking := sorted(every - set(printed)):
            what = f"says nothing of {', '.join(lacking)}" if printed else "says nothing"
            read.problem(information_path(address), what, f"what it tells of {address} is unknown or from elsewhere")
    return {
        address: {name: told[name] for name in told if _is_known(told[name])}
        for address, told in printed_by_address.items()
    }


def _is_known(value: str) -> bool:
    """Return whether a value is one: until a GPU is used for the first time the driver prints question marks."""
    return bool(value) and "?" not in value and value != "N/A"


def _printed(read: Reader, path: str) -> dict[str, str]:
    content = read.raw(path)
    if content is None:
        return {}
    *lines, rest = content.decode("utf-8", "backslashreplace").split("\n")
    parts = [line.partition(":") for line in lines]
    fields = {name.strip(): value.strip() for name, colon, value in parts if colon}
    if rest or not fields:
        wrong = "is cut short" if fields else f"is not information: {rest[:60]!r}"
        read.problem(path, wrong, "its whole lines" if fields else "nothing of it")
    return fields
