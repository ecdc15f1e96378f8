"""Whether a root shows the running machine, whose CPUID, drivers and system calls may then be used as well.

An agent in a container sees the host below a separate directory, with the kernel's sysfs at its `sys`. A tree that was
copied from another machine has plain files there. The mounts of the process distinguish the two. Each mount is listed
with its type, and with its device, which is the device of the files in it (Documentation/filesystems/proc.rst, 3.5).
"""

from __future__ import annotations

import os

from zonewise.machine.files import LIVE_ROOT

MOUNTS = "/proc/self/mountinfo"
_SYSFS = "sysfs"


def is_running_machine(root: str, mounts: str = MOUNTS) -> bool:
    """Return whether `root` is "/", or has a sysfs at `sys`; False if the mounts cannot be read."""
    if os.path.realpath(root) == LIVE_ROOT:
        return True
    try:
        device = os.lstat(os.path.join(root, "sys")).st_dev  # a copied tree may have a link to this machine's sysfs
        with open(mounts, encoding="utf-8", errors="replace") as lines:
            return f"{os.major(device)}:{os.minor(device)}" in _sysfs_devices(lines.read())
    except OSError:
        return False


def _sysfs_devices(text: str) -> set[str]:
    """Return the devices, as major:minor, of the mounts of type sysfs."""
    devices: set[str] = set()
    for line in text.splitlines():
        mount, _, source = line.partition(" - ")  # optional fields end with a lone hyphen; spaces in names are escaped
        fields = mount.split()
        if source.split(" ")[0] == _SYSFS and len(fields) > 2:
            devices.add(fields[2])
    return devices
