"""The machine on which the tests run, compared with psutil, and with lscpu, lstopo, numactl and lspci if installed."""

from __future__ import annotations

import functools
import json
import re
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING

import psutil
import pytest

from support.lstopo import lstopo
from support.views import cache_tuples, core_sets, package_sets, zone_sizes
from zonewise.machine.collectors.memory.zones import MAX_DIFFERENCE
from zonewise.machine.discover import discover
from zonewise.machine.files import DirectoryFiles
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

MIB = 1 << 20
_BRIDGES = ("0604", "0609")


@functools.cache
def live() -> Machine:
    """Return the machine that the tests run on, which is discovered once."""
    return discover(DirectoryFiles("/"))


def tool_output(*command: str) -> str:
    """Return the output of a tool; skip the test if the tool is not installed or lacks the option."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    completed = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    if completed.returncode:
        pytest.skip(f"{' '.join(command)} fails here: {completed.stderr.strip()[:100]}")
    return completed.stdout


def test_no_collector_fails_on_the_running_machine() -> None:
    """The machine that the tests run on is discovered without an internal error."""
    assert [problem for problem in live().problems if "collector" in problem.problem] == []


def test_psutil_cpus() -> None:
    """Online CPUs, cores, and the CPUs that this process may use are those of psutil."""
    machine = live()
    assert len(machine.cpus.online) == psutil.cpu_count()
    if (cores := psutil.cpu_count(logical=False)) is not None:
        assert len(machine.cores) == cores
    allowed = machine.cpus.online if machine.cpus.allowed is None else machine.cpus.allowed
    assert set(psutil.Process().cpu_affinity() or ()) <= set(allowed)


def test_psutil_memory() -> None:
    """Swap is that of psutil. The total memory of the zones does not exceed psutil's.

    It is temporarily less if the kernel initialises memory late (CONFIG_DEFERRED_STRUCT_PAGE_INIT).
    """
    machine = live()
    assert machine.swap == psutil.swap_memory().total
    total = psutil.virtual_memory().total
    assert machine.memory == pytest.approx(total, rel=MAX_DIFFERENCE)
    assert 0 < sum(zone.memory or 0 for zone in machine.zones) <= psutil.virtual_memory().total


def test_psutil_network_devices() -> None:
    """Each network device of this namespace has the MTU, state, speed and MAC address that psutil reports."""
    devices = {nic.name: nic for nic in live().nics if nic.presence == "netdev"}
    stats, addresses = psutil.net_if_stats(), psutil.net_if_addrs()
    physical = {name for name in stats if name in devices}
    assert {name for name, nic in devices.items() if not nic.virtual} <= physical
    for name in physical:
        assert devices[name].mtu == stats[name].mtu
        assert (devices[name].speed_mbps or 0) == stats[name].speed
        macs = [address.address for address in addresses.get(name, ()) if address.family == socket.AF_PACKET]
        assert macs in ([], [devices[name].mac])


def test_lscpu_counts() -> None:
    """CPUs, sockets, cores and the vendor are those of lscpu."""
    fields = {each["field"].rstrip(":"): each["data"] for each in json.loads(tool_output("lscpu", "-J"))["lscpu"]}
    machine = live()
    assert machine.architecture == fields["Architecture"]
    assert machine.cpus.online == CpuSet.parse_list(fields["On-line CPU(s) list"])
    if "Socket(s)" in fields:
        assert len(machine.packages) == int(fields["Socket(s)"])
        assert len(machine.cores) == int(fields["Socket(s)"]) * int(fields["Core(s) per socket"])
    if "Vendor ID" in fields:
        assert machine.model.vendor == fields["Vendor ID"]
    if "Flags" in fields:
        assert list(machine.model.flags) == fields["Flags"].split()
    assert machine.virtualization.vendor == fields.get("Hypervisor vendor", machine.virtualization.vendor)


def test_lscpu_rows() -> None:
    """Every CPU is in the zone that lscpu reports."""
    machine = live()
    for row in json.loads(tool_output("lscpu", "-e", "-J"))["cpus"]:
        if row.get("node") is None or not row.get("online", True):
            continue
        zones = [zone.id for zone in machine.zones if int(row["cpu"]) in zone.cpus]
        assert zones == [int(row["node"])]


def test_lscpu_caches() -> None:
    """Each kind of cache has the size and the total size that lscpu reports."""
    caches = live().caches
    for row in json.loads(tool_output("lscpu", "-C", "-B", "-J"))["caches"]:
        alike = [cache for cache in caches if (cache.level, cache.type) == (int(row["level"]), row["type"])]
        assert {cache.size for cache in alike} == {int(row["one-size"])}
        assert sum(cache.size or 0 for cache in alike) == int(row["all-size"])


def test_lstopo() -> None:
    """Packages, cores, caches and zones are those of lstopo."""
    tool_output("lstopo", "--version")
    expected_topology, machine = lstopo(), live()
    assert package_sets(machine) == expected_topology.packages
    assert core_sets(machine) == expected_topology.cores
    assert cache_tuples(machine) == expected_topology.caches
    assert zone_sizes(machine) == expected_topology.zones
    assert {
        function.address for function in machine.pci if function.pci_class not in _BRIDGES
    } == expected_topology.functions


def test_numactl() -> None:
    """Zones, their CPUs, sizes and distances are those of numactl."""
    text = tool_output("numactl", "-H")
    machine = live()
    cpus = {int(zone): CpuSet(map(int, ids.split())) for zone, ids in re.findall(r"node (\d+) cpus:(.*)", text)}
    sizes = {int(zone): int(size) for zone, size in re.findall(r"node (\d+) size: (\d+) MB", text)}
    assert {zone.id: zone.cpus for zone in machine.zones} == cpus
    assert {zone.id: (zone.memory or 0) // MIB for zone in machine.zones} == sizes
    rows = re.findall(r"^ *(\d+): +([\d ]+)$", text, re.MULTILINE)
    assert {zone.id: list(zone.distances.values()) for zone in machine.zones} == {
        int(zone): [int(distance) for distance in row.split()] for zone, row in rows
    }


def test_lspci() -> None:
    """The PCI functions are exactly those of lspci, with their class, ids and driver."""
    text = tool_output("lspci", "-Dvmmnk")
    expected: dict[str, tuple[str | None, ...]] = {}
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(":\t", 1) for line in block.split("\n") if ":\t" in line)
        if "Slot" in fields:
            expected[fields["Slot"]] = tuple(fields.get(name) for name in ("Class", "Vendor", "Device", "Driver"))
    assert {each.address: (each.pci_class, each.vendor, each.device, each.driver) for each in live().pci} == expected
