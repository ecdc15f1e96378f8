"""Facts that the kernel's display and render infrastructure (DRM) has of a GPU, whatever its driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.machine.reader import Reader

KFD = "sys/class/kfd/kfd/topology"
"""The directory in which AMD's compute driver describes its GPUs."""

_NODES = {"renderD": "minor", "card": "number"}


def drm_numbers(read: Reader, path: str, fact: str) -> tuple[int | None, int | None]:
    """Return the numbers n of /dev/dri/renderD<n> and /dev/dri/card<n> of the PCI function in a directory."""
    numbers: dict[str, int] = {}
    for name in read.names(f"{path}/drm"):
        for node, field in _NODES.items():
            digits = name.removeprefix(node)
            if digits != name and digits.isdecimal() and len(digits) <= 4:
                numbers.setdefault(field, int(digits))
                read.source(f"{fact}.{field}", f"{path}/drm/{name}", name, "the number in the name of the device")
    return numbers.get("minor"), numbers.get("number")


def natural_number(read: Reader, path: str, *, fact: str = "", rule: str = "the number in the file") -> int | None:
    """Return a number that cannot be negative; None if the file is absent or contains anything else."""
    number = read.integer(path, fact=fact, rule=rule)
    if number is not None and number < 0:
        read.problem(path, f"contains {number}", "the number is unknown")
        return None
    return number


def module_version(read: Reader, driver: str) -> str | None:
    """Return the version of a driver that has its own; the kernel's in-tree drivers have none."""
    return read.text(f"sys/module/{driver}/version")
