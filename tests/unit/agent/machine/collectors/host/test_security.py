"""SELinux, KVM, and protection of virtual machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.damage import DAMAGES, Damage, Damaged
from support.trees import Contents, line
from zonewise.machine.collector import Peek
from zonewise.machine.collectors.host.security import COLLECTOR
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.host import Security

if TYPE_CHECKING:
    from zonewise.machine.model.problem import Problem


def amd_host() -> Contents:
    """Return the tree of a host of SEV guests that enforces SELinux."""
    return {
        "sys/devices/system/cpu/online": line("0-7"),  # so that elsewhere a line without an end is damage
        "sys/fs/selinux/enforce": b"1",
        "sys/devices/virtual/misc/kvm/dev": line("10:232"),
        "sys/devices/virtual/misc/vfio/dev": line("10:196"),
        "sys/module/kvm_amd/parameters/sev": line("Y"),
        "sys/module/kvm_amd/parameters/sev_es": line("1"),
        "sys/module/kvm_amd/parameters/sev_snp": line("N"),
        "sys/fs/cgroup/misc.capacity": b"sev 410\nsev_es 99\n",
    }


def scan(tree: Contents, damages: dict[str, Damage] | None = None) -> Scan:
    files = Damaged(MemoryFiles(tree.items()), damages or {})
    return Scanner(files, explain=True, collectors=(COLLECTOR,)).scan()


def scan_security(tree: Contents) -> tuple[Security, tuple[Problem, ...]]:
    machine = scan(tree).machine
    return machine.security, machine.problems


def test_an_amd_host() -> None:
    """The settings of KVM's module and the capacities are read."""
    security, problems = scan_security(amd_host())
    assert security == Security(
        selinux=True, kvm=True, sev=True, sev_es=True, sev_snp=False, capacities={"sev": 410, "sev_es": 99}
    )
    assert problems == ()


def test_an_intel_host() -> None:
    """Intel's module controls TDX; cgroup v1 has its capacities at another path."""
    tree: Contents = {
        "sys/module/kvm_intel/parameters/tdx": line("Y"),
        "sys/fs/cgroup/misc/misc.capacity": b"tdx 31\nsgx_epc 98566144\n",
        "sys/devices/virtual/misc/vfio/dev": line("10:196"),
    }
    security, problems = scan_security(tree)
    assert security == Security(kvm=False, tdx=True, capacities={"sgx_epc": 98566144, "tdx": 31})
    assert problems == ()


def test_a_mainframe() -> None:
    """A host of Secure Execution has it among its firmware's files."""
    assert scan_security({"sys/firmware/uv/prot_virt_host": line(1)})[0] == Security(secure_execution=True)


def test_an_empty_root_has_no_facts() -> None:
    """Without the files, nothing is known, not even that it is disabled."""
    assert scan_security({"sys": None}) == (Security(), ())


@pytest.mark.parametrize("content", [line("maybe"), line(2), b"\xff\n"])
def test_an_invalid_setting(content: bytes) -> None:
    """A value that is neither on nor off is unknown and reported."""
    security, problems = scan_security(amd_host() | {"sys/module/kvm_amd/parameters/sev": content})
    assert security.sev is None
    assert {problem.path for problem in problems} == {"/sys/module/kvm_amd/parameters/sev"}


@pytest.mark.parametrize("content", [b"", b"sev 410\nsev_es\n", b"sev -1\n", b"sev many\n"])
def test_capacities_that_are_damaged(content: bytes) -> None:
    """Lines that name no capacity are omitted, and reported unless the file names no capacity at all."""
    security, problems = scan_security(amd_host() | {"sys/fs/cgroup/misc.capacity": content})
    assert set(security.capacities) <= {"sev"}
    assert bool(problems) == bool(content)


@given(st.dictionaries(st.sampled_from(sorted(amd_host())), DAMAGES, min_size=1))
def test_damage_does_not_fail_the_collector(damages: dict[str, Damage]) -> None:
    """Whatever happens to the files, the collector does not fail."""
    assert [run for run in scan(amd_host(), damages).runs if run.outcome == "failed"] == []


@pytest.mark.parametrize(
    ("tree", "selinux"),
    [
        ({"proc/filesystems": b"nodev\tsysfs\n\text4\n"}, False),
        ({"proc/filesystems": b"nodev\tsysfs\nnodev\tselinuxfs\n"}, None),
        ({"proc/filesystems": b"nodev\tsysfs\n", "sys/fs/selinux/enforce": b"1"}, True),
        ({"proc/filesystems": b"nodev\tsysfs\n", "sys/fs/selinux/status": b""}, None),
        ({}, None),
    ],
)
def test_a_kernel_without_selinux(tree: Contents, selinux: bool | None) -> None:
    """A kernel without selinuxfs enforces nothing; a kernel with an unmounted selinuxfs may."""
    security, problems = scan_security(tree)
    assert (security.selinux, problems) == (selinux, ())


def test_selinux_is_switched_while_the_machine_runs() -> None:
    """Enforcing and permissive give different signatures."""
    before, after = (Peek(MemoryFiles([("sys/fs/selinux/enforce", text)])) for text in (b"0", b"1"))
    assert COLLECTOR.volatile(before) != COLLECTOR.volatile(after)
