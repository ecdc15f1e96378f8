"""Machines made of files with the layout of a 6.x kernel, for tests that must run everywhere.

`machine_tree` makes the CPUs and zones of any shape. `server_tree` adds a server's devices to one shape: each of two
packages has a GPU, an InfiniBand HCA and an NVMe disk.
"""

from __future__ import annotations

from typing import NamedTuple

from zonewise_common.k8s.cpuset import CpuSet

Contents = dict[str, bytes | str | None]
"""A tree: bytes for a file, str for a link's target, None for an empty directory."""

SYSTEM = "sys/devices/system"
GIB = 1 << 30


class Shape(NamedTuple):
    """The number of each unit; cores are numbered through the machine, zone by zone."""

    packages: int = 2
    zones: int = 2
    """Per package."""
    cores: int = 2
    """Per zone."""
    threads: int = 2
    """Per core."""
    l3_cores: int = 2
    """The number of cores that share an L3; it divides `cores`."""
    adjacent: bool = False
    """Whether the threads of a core have adjacent ids (POWER), or ids that differ by the number of cores (x86)."""
    offline: tuple[int, ...] = ()

    @property
    def all_zones(self) -> int:
        return self.packages * self.zones

    @property
    def all_cores(self) -> int:
        return self.all_zones * self.cores

    @property
    def all_cpus(self) -> CpuSet:
        return CpuSet(range(self.all_cores * self.threads))

    @property
    def online(self) -> CpuSet:
        return self.all_cpus - CpuSet(self.offline)

    def of_core(self, core: int) -> CpuSet:
        """Return the online CPUs of a core."""
        if self.adjacent:
            cpus = range(core * self.threads, (core + 1) * self.threads)
        else:
            cpus = range(core, self.all_cores * self.threads, self.all_cores)
        return CpuSet(cpus) & self.online

    def of_cores(self, first: int, cores: int) -> CpuSet:
        """Return the online CPUs of consecutive cores."""
        return CpuSet(cpu for core in range(first, first + cores) for cpu in self.of_core(core))

    def of_zone(self, zone: int) -> CpuSet:
        """Return the online CPUs of a zone."""
        return self.of_cores(zone * self.cores, self.cores)

    def of_package(self, package: int) -> CpuSet:
        """Return the online CPUs of a package."""
        return self.of_cores(package * self.zones * self.cores, self.zones * self.cores)

    def core_of(self, cpu: int) -> int:
        """Return the core that a CPU belongs to."""
        return cpu // self.threads if self.adjacent else cpu % self.all_cores


SERVER = Shape()
"""16 CPUs: 2 packages of 2 zones of 2 cores of 2 threads; 4 GiB in each zone."""


def machine_tree(shape: Shape) -> Contents:
    """Return the CPUs, caches and zones of a machine."""
    tree: Contents = {}
    _add_cpus(tree, shape)
    _add_zones(tree, shape)
    _add_proc(tree, shape)
    return tree


def server_tree() -> Contents:
    """Return a whole server of shape SERVER, with devices."""
    tree = machine_tree(SERVER)
    for package in range(SERVER.packages):
        _add_devices(tree, package)
    return tree


def mask(cpus: CpuSet) -> bytes:
    """Return a CPU set as the kernel prints masks for 128 possible CPUs."""
    return (",".join(f"{cpus.bits >> shift & 0xFFFFFFFF:08x}" for shift in (96, 64, 32, 0)) + "\n").encode()


def line(value: object) -> bytes:
    """Return a value as the kernel prints it."""
    return f"{value}\n".encode()


def _add_set(tree: Contents, stem: str, cpus: CpuSet, list_name: str | None = None) -> None:
    tree[stem] = mask(cpus)
    tree[list_name or f"{stem}_list"] = line(cpus)


def _add_cpus(tree: Contents, shape: Shape) -> None:
    tree |= {f"{SYSTEM}/cpu/{name}": line(shape.all_cpus) for name in ("present", "possible")}
    tree |= {f"{SYSTEM}/cpu/{name}": b"\n" for name in ("isolated", "nohz_full")}
    tree |= {f"{SYSTEM}/cpu/online": line(shape.online), f"{SYSTEM}/cpu/offline": line(CpuSet(shape.offline))}
    for cpu in shape.all_cpus:
        tree[f"{SYSTEM}/cpu/cpu{cpu}/online"] = line(int(cpu in shape.online))
    for cpu in shape.online:
        place, core = f"{SYSTEM}/cpu/cpu{cpu}", shape.core_of(cpu)
        package = core // (shape.zones * shape.cores)
        for name in ("core_cpus", "thread_siblings"):
            _add_set(tree, f"{place}/topology/{name}", shape.of_core(core))
        for name in ("package_cpus", "core_siblings", "die_cpus"):
            _add_set(tree, f"{place}/topology/{name}", shape.of_package(package))
        tree[f"{place}/topology/core_id"] = line(core)
        tree[f"{place}/topology/physical_package_id"] = line(package)
        tree[f"{place}/topology/die_id"] = line(0)
        tree[f"{place}/cpufreq/cpuinfo_max_freq"] = line(3_800_000)
        tree[f"{place}/cpufreq/cpuinfo_min_freq"] = line(800_000)
        _add_caches(tree, place, shape, core)


def _add_caches(tree: Contents, place: str, shape: Shape, core: int) -> None:
    kinds = (
        (1, "Data", "32K", shape.of_core(core)),
        (1, "Instruction", "32K", shape.of_core(core)),
        (2, "Unified", "1024K", shape.of_core(core)),
        (3, "Unified", "16384K", shape.of_cores(core - core % shape.l3_cores, shape.l3_cores)),
    )
    for number, (level, kind, size, cpus) in enumerate(kinds):
        cache = f"{place}/cache/index{number}"
        tree[f"{cache}/level"], tree[f"{cache}/type"], tree[f"{cache}/size"] = line(level), line(kind), line(size)
        tree[f"{cache}/id"] = line(cpus.first())
        _add_set(tree, f"{cache}/shared_cpu_map", cpus, f"{cache}/shared_cpu_list")


def _add_zones(tree: Contents, shape: Shape) -> None:
    zones = range(shape.all_zones)
    ids = line(CpuSet(zones))
    tree |= {f"{SYSTEM}/node/{name}": ids for name in ("online", "possible", "has_memory", "has_cpu")}
    for zone in zones:
        place = f"{SYSTEM}/node/node{zone}"
        _add_set(tree, f"{place}/cpumap", shape.of_zone(zone), f"{place}/cpulist")
        distances = (
            10 if other == zone else 12 if other // shape.zones == zone // shape.zones else 32 for other in zones
        )
        tree[f"{place}/distance"] = line(" ".join(map(str, distances)))
        total = f"Node {zone} MemTotal:  {4 * GIB // 1024} kB"
        tree[f"{place}/meminfo"] = f"\n{total}\nNode {zone} MemFree:  12345 kB\n".encode()
        for kib, pages in ((2048, 128), (1048576, 1)):
            tree[f"{place}/hugepages/hugepages-{kib}kB/nr_hugepages"] = line(pages)
            tree[f"sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages"] = line(pages * shape.all_zones)
        for cpu in shape.of_zone(zone):
            tree[f"{place}/cpu{cpu}"] = f"../../cpu/cpu{cpu}"
            tree[f"{SYSTEM}/cpu/cpu{cpu}/node{zone}"] = f"../../node/node{zone}"


def _add_function(
    tree: Contents, place: str, package: int, pci_class: str, vendor: str, device: str, driver: str
) -> None:
    address, zone = place.rsplit("/", 1)[1], SERVER.zones * package
    ids = {
        "class": pci_class,
        "vendor": vendor,
        "device": device,
        "subsystem_vendor": vendor,
        "subsystem_device": "0001",
    }
    tree |= {f"{place}/{name}": line(f"0x{value}") for name, value in ids.items()}
    tree[f"{place}/numa_node"] = line(zone)
    _add_set(tree, f"{place}/local_cpus", SERVER.of_zone(zone), f"{place}/local_cpulist")
    for which in ("current", "max"):
        tree[f"{place}/{which}_link_speed"], tree[f"{place}/{which}_link_width"] = line("32.0 GT/s PCIe"), line(16)
    tree[f"{place}/driver"] = f"{'../' * (place.count('/') - 1)}bus/pci/drivers/{driver}"
    tree[f"sys/bus/pci/drivers/{driver}"] = None
    tree[f"sys/bus/pci/devices/{address}"] = f"../../../{place.removeprefix('sys/')}"


def _bridge_config(parent: int, first: int, last: int) -> bytes:
    """Return the standard header of a PCI-to-PCI bridge: its ids, header type 1, the buses above and below."""
    config = bytearray(64)
    config[0:4] = (0x1000).to_bytes(2, "little") + (0xC030).to_bytes(2, "little")
    config[0x0A:0x0C] = b"\x04\x06"
    config[0x0E] = 1
    config[0x18:0x1B] = bytes((parent, first, last))
    return bytes(config)


def _add_devices(tree: Contents, package: int) -> None:
    bus = "1" if package == 0 else "8"
    root = f"sys/devices/pci0000:{bus}0"
    port, up = f"{root}/0000:{bus}0:01.0", f"{root}/0000:{bus}0:01.0/0000:{bus}1:00.0"
    gpu_port, nic_port = f"{up}/0000:{bus}2:00.0", f"{up}/0000:{bus}2:01.0"
    disk_port = f"{root}/0000:{bus}0:02.0"
    for bridge, buses in ((port, "15"), (up, "24"), (gpu_port, "33"), (nic_port, "44"), (disk_port, "55")):
        _add_function(tree, bridge, package, "060400", "1000", "c030", "pcieport")
        parent, first, last = bridge[-7:-5], bus + buses[0], bus + buses[1]
        tree[f"{bridge}/config"] = _bridge_config(*(int(number, 16) for number in (parent, first, last)))
    _add_function(tree, f"{gpu_port}/0000:{bus}3:00.0", package, "030200", "10de", "2330", "nvidia")
    nic = f"{nic_port}/0000:{bus}4:00.0"
    _add_function(tree, nic, package, "020700", "15b3", "1021", "mlx5_core")
    tree[f"{nic}/sriov_totalvfs"], tree[f"{nic}/sriov_numvfs"] = line(16), line(0)
    disk = f"{disk_port}/0000:{bus}5:00.0"
    _add_function(tree, disk, package, "010802", "144d", "a80a", "nvme")
    _add_network(tree, nic, package)
    block = f"{disk}/nvme/nvme{package}/nvme{package}n1"
    tree |= {f"{block}/size": line(7501476528), f"{block}/queue/rotational": line(0)}
    tree[f"{disk}/nvme/nvme{package}/model"] = line("SAMSUNG MZQL27T6HBLA-00A07")
    tree[f"{block}/device"] = f"../../nvme{package}"
    tree[f"sys/class/block/nvme{package}n1"] = f"../../{block.removeprefix('sys/')}"
    tree[f"sys/block/nvme{package}n1"] = f"../{block.removeprefix('sys/')}"


def _add_network(tree: Contents, nic: str, package: int) -> None:
    net, hca = f"{nic}/net/ib{package}", f"{nic}/infiniband/mlx5_{package}"
    values = {
        "operstate": "up",
        "speed": 400000,
        "mtu": 2044,
        "type": 32,
        "dev_port": 0,
        "address": f"00:00:10:49:{package:02x}",
    }
    tree |= {f"{net}/{name}": line(value) for name, value in values.items()}
    tree |= {f"{place}/device": "../../../" + nic.rsplit("/", 1)[1] for place in (net, hca)}
    tree[f"sys/class/net/ib{package}"] = f"../../{net.removeprefix('sys/')}"
    tree[f"sys/class/infiniband/mlx5_{package}"] = f"../../{hca.removeprefix('sys/')}"
    guid = f"a088:c203:0056:8a4{package}"
    tree |= {f"{hca}/node_guid": line(guid), f"{hca}/node_type": line("1: CA"), f"{hca}/fw_ver": line("28.41.1000")}
    tree |= {f"{hca}/board_id": line("MT_0000000838"), f"{hca}/hca_type": line("MT4129")}
    port = f"{hca}/ports/1"
    facts = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
        "lid": f"0x{package + 5:x}",
        "sm_lid": "0x1",
        "gids/0": f"fe80:0000:0000:0000:{guid}",
        "counters/port_xmit_data": 1 << 40,
        "counters/link_downed": 0,
        "hw_counters/out_of_sequence": 3,
    }
    tree |= {f"{port}/{name}": line(value) for name, value in facts.items()}


def _add_proc(tree: Contents, shape: Shape) -> None:
    tree["proc/meminfo"] = f"MemTotal:       {shape.all_zones * 4 * GIB // 1024} kB\nMemFree:        1234 kB\n".encode()
    tree["proc/sys/kernel/hostname"] = line("node-7")
    tree["proc/sys/kernel/osrelease"] = line("6.8.0-45-generic")
    tree["proc/sys/kernel/version"] = line("#45-Ubuntu SMP PREEMPT_DYNAMIC")
    tree["proc/cmdline"] = line("BOOT_IMAGE=/vmlinuz root=/dev/nvme0n1p2 ro quiet")
    tree["proc/cpuinfo"] = "".join(
        f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
        "model name\t: Intel(R) Xeon(R) Platinum 8480+\nstepping\t: 8\n"
        "flags\t\t: fpu vme tsc lm sse2 avx2 avx512f vmx\n\n"
        for cpu in shape.online
    ).encode()
    tree["sys/class/dmi/id/sys_vendor"], tree["sys/class/dmi/id/product_name"] = line("Example"), line("HPC Node X2")
    tree["sys/class/dmi/id/product_version"] = line("A01")
