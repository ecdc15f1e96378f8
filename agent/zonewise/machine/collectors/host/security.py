"""Security that the kernel enforces (SELinux), and its means of shielding virtual machines: TDX, SEV, Secure Execution.

The parameters of the KVM modules show which features are switched on, beyond what the processor supports
(arch/x86/kvm/vmx/tdx.c, arch/x86/kvm/svm/sev.c). The cgroup controller `misc` shows the capacity of each
(kernel/cgroup/misc.c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.collector import Collector
from zonewise.machine.model.host import Security
from zonewise.machine.reader import parse_integer

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

SELINUX = "sys/fs/selinux"
FILE_SYSTEMS = "proc/filesystems"
KVM = "sys/devices/virtual/misc/kvm"
SECURE_EXECUTION = "sys/firmware/uv/prot_virt_host"
CAPACITIES = ("sys/fs/cgroup/misc.capacity", "sys/fs/cgroup/misc/misc.capacity")
"""The files of cgroup v2 and v1."""

_PARAMETERS = {
    "tdx": "sys/module/kvm_intel/parameters/tdx",
    "sev": "sys/module/kvm_amd/parameters/sev",
    "sev_es": "sys/module/kvm_amd/parameters/sev_es",
    "sev_snp": "sys/module/kvm_amd/parameters/sev_snp",
}
_SWITCHES = {"Y": True, "1": True, "N": False, "0": False}  # include/linux/moduleparam.h, param_get_bool()


def _collect(read: Reader, machine: Machine) -> Machine:
    parameters = {field: _switch(read, path, field) for field, path in _PARAMETERS.items()}
    return machine._replace(
        security=Security(
            selinux=_selinux(read),
            kvm=_has_kvm(read),
            secure_execution=_switch(read, SECURE_EXECUTION, "secure_execution"),
            capacities=_capacities(read),
            **parameters,
        )
    )


def _switch(read: Reader, path: str, field: str) -> bool | None:
    content = read.raw(path)
    if content is None:
        return None
    # selinuxfs ends no file with a newline (security/selinux/selinuxfs.c, sel_read_enforce())
    text = content.decode("ascii", "backslashreplace").strip("\0\n ")
    read.source(f"security.{field}", path, text, "Y or 1 means on")
    if text not in _SWITCHES:
        read.problem(path, f"contains {text[:60]!r}, neither on nor off", f"security.{field} is unknown")
    return _SWITCHES.get(text)


def _selinux(read: Reader) -> bool | None:
    """Return whether SELinux enforces; False if the kernel has not registered selinuxfs.

    The kernel registers it only if SELinux is switched on (security/selinux/selinuxfs.c, init_sel_fs()).
    """
    enforces = _switch(read, f"{SELINUX}/enforce", "selinux")
    if enforces is not None or read.has(SELINUX):
        return enforces
    text = read.text(FILE_SYSTEMS)
    if text is None or "selinuxfs" in text.split():
        return None
    read.source("security.selinux", FILE_SYSTEMS, False, "no selinuxfs: the kernel runs without SELinux")
    return False


def _has_kvm(read: Reader) -> bool | None:
    """Return whether KVM's device exists; None if not even the directory of such devices is visible."""
    devices = read.names(KVM.rpartition("/")[0])
    read.source("security.kvm", KVM, "kvm" in devices, "whether the device exists")
    return "kvm" in devices if devices else None


def _capacities(read: Reader) -> dict[str, int]:
    for path in CAPACITIES:
        content = read.raw(path)
        if content is None:
            continue
        lines = content.decode("ascii", "backslashreplace").splitlines()
        capacities = dict(pair for line in lines if (pair := _capacity(line)))
        if len(capacities) < len(lines):
            read.problem(path, f"names a capacity in only {len(capacities)} of its {len(lines)} lines", "those")
        read.source("security.capacities", path, len(capacities), "a name and a number in each line")
        return dict(sorted(capacities.items()))
    return {}


def _capacity(line: str) -> tuple[str, int] | None:
    name, _, number = line.partition(" ")
    try:
        capacity = parse_integer(number)
    except ValueError:
        return None
    return (name, capacity) if name.isidentifier() and capacity >= 0 else None


def _volatile(peek: Peek) -> Hashable:
    """Notice that SELinux was switched, which can happen at any time; the rest comes and goes with modules."""
    return peek.content(f"{SELINUX}/enforce")


COLLECTOR = Collector("security", provides=("security",), needs=("kernel",), collect=_collect, volatile=_volatile)
