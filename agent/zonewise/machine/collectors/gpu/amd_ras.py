"""Error counts of AMD GPUs by block, such as memory (umc) or compute units (gfx), since the driver was loaded.

Each block has a file in the directory `ras` of the PCI function: `umc_err_count`, or `aca_umc` with the Accelerator
Check Architecture. Both contain lines such as "ue: 0" (uncorrected) and "ce: 1" (corrected). Sources: kernel
Documentation/gpu/amdgpu/ras.rst; drivers/gpu/drm/amd/amdgpu/amdgpu_ras.c amdgpu_ras_sysfs_read; amdgpu_aca.c
add_aca_sysfs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.machine.reader import Reader

AMDGPU = "amdgpu"
MEMORY_BLOCK = "umc"
_FILE = re.compile(r"(?P<counted>\w+)_err_count|aca_(?P<banked>\w+)")
_ERRORS = re.compile(r"^(ue|ce): (\d{1,19})$", re.MULTILINE)
_ASLEEP = frozenset({"suspended", "suspending", "resuming"})
"""States of Documentation/ABI/testing/sysfs-devices-power in which a GPU's registers cannot be read."""


def is_asleep(read: Reader, path: str) -> bool:
    """Return whether a GPU is suspended: all bits of its registers then read as one."""
    return read.text(f"{path}/power/runtime_status") in _ASLEEP


def ras_files(read: Reader, path: str) -> dict[str, str]:
    """Return the files of a GPU's directory by block; none while the GPU is suspended.

    A read queries the hardware, and the driver would add the ones of a suspended GPU to its counts.
    """
    matches = {name: match for name in read.names(f"{path}/ras") if (match := _FILE.fullmatch(name))}
    if not matches or is_asleep(read, path):
        return {}
    return {match["counted"] or match["banked"]: f"{path}/ras/{name}" for name, match in matches.items()}


def error_counts(text: str | None) -> dict[str, int]:
    """Return the counts "ue" and "ce" in the content of a file; a count that it lacks is absent.

    While a GPU is reset, the content is "Query currently inaccessible".
    """
    return {kind: int(number) for kind, number in _ERRORS.findall(text or "")}
