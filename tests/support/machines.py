"""Handmade machines for tests of code that uses a Machine: one builder for each kind of machine.

They are plausible, but copy no real machine. They are complete: CPUs, caches, zones, PCI tree, devices, and the
relation of every two endpoint devices.
"""

from __future__ import annotations

from support.machine_parts import (
    GIB,
    KIB,
    MIB,
    CacheSizes,
    Processors,
    Slot,
    cpus,
    function,
    processors,
    with_distances,
    with_links,
)
from zonewise.machine.model.cpu import Cache, Cluster, Core, CoreKind, Cpus, Model, Package
from zonewise.machine.model.gpu import Fabric, Gpu, Health, Mig, NvLinkPeer
from zonewise.machine.model.host import BlockDevice, DaxDevice, Kernel, Virtualization
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.network import Nic, Port, RdmaDevice
from zonewise.machine.model.pci import Link, PciFunction, PciLink, Sriov
from zonewise.machine.model.zone import Access, MemorySideCache, Zone
from zonewise_common.k8s.cpuset import EMPTY, CpuSet


def small_vm() -> Machine:
    """Return a virtual machine with 4 CPUs, one zone, virtio devices below one host bridge, and no GPU."""
    machine = processors(
        Processors(packages=1, zones=1, l3_groups=1, cores=2, threads=2),
        CacheSizes(32 * KIB, 32 * KIB, 1 * MIB, 39 * MIB),
        "Intel(R) Xeon(R) Platinum 8273CL CPU @ 2.20GHz",
        16_777_216_000,
    )
    slot = Slot("pci0000:00", (), 0, None)
    return machine._replace(
        hostname="vm-1",
        product="QEMU Standard PC (Q35 + ICH9, 2009)",
        kernel=Kernel("6.1.0-28-cloud-amd64"),
        virtualization=Virtualization(True, "KVM", "full"),
        pci=(
            function("0000:00:03.0", "0200", ("1af4", "1041"), slot, driver="virtio-pci"),
            function("0000:00:04.0", "0100", ("1af4", "1042"), slot, driver="virtio-pci"),
        ),
        nics=(
            Nic("ens3", "0000:00:03.0", 0, "virtio_net", 10000, "up", "52:54:00:00:00:01", "Ethernet", None, None),
            Nic("lo", None, None, None, None, "unknown", None, None, None, None, virtual=True, kind="loopback"),
        ),
        block_devices=(BlockDevice("vda", "0000:00:04.0", 0, 50 * GIB, False, None, "virtio"),),
        links=(Link("0000:00:03.0", "0000:00:04.0", "PHB"),),
    )


GPU_ROOTS = ("15", "26", "37", "48", "97", "a7", "b7", "c7")
"""The buses of the host bridges of gpu_server(), two for each zone."""


def gpu_server() -> Machine:
    """Return a server of 8 GPUs: 2 packages of 2 zones; 4 switches, each with GPU, HCA and NVMe drive; NVLink."""
    machine = processors(
        Processors(packages=2, zones=2, l3_groups=1, cores=28, threads=2),
        CacheSizes(48 * KIB, 32 * KIB, 2 * MIB, 0),
        "Intel(R) Xeon(R) Platinum 8480C",
        512 * GIB,
    )
    machine = with_distances(machine, ((10, 12, 21, 21), (12, 10, 21, 21), (21, 21, 10, 12), (21, 21, 12, 10)))
    shared = tuple(Cache(3, "Unified", 105 * MIB, package.cpus) for package in machine.packages)
    pci = [part for number, bus in enumerate(GPU_ROOTS) for part in _gpu_switch(number, int(bus, 16))]
    nics = [
        Nic(f"ib{number}", f"0000:{int(bus, 16) + 3:02x}:00.0", number // 2, "mlx5_core", 400000, "up", None,
            "InfiniBand", None, f"mlx5_{number}")
        for number, bus in enumerate(GPU_ROOTS)
    ]  # fmt: skip
    ports, functions = _dual_port_nic()
    return with_links(
        machine._replace(
            hostname="gpu-7",
            product="Supermicro SYS-821GE-TNHR",
            kernel=Kernel("6.8.0-45-generic"),
            caches=machine.caches + shared,
            pci=(*functions, *pci),
            gpus=tuple(_hopper(number, int(bus, 16)) for number, bus in enumerate(GPU_ROOTS)),
            nics=(*ports, *nics, Nic("lo", None, None, None, None, "unknown", None, None, None, None, virtual=True)),
            infiniband=tuple(_hca(number, int(bus, 16)) for number, bus in enumerate(GPU_ROOTS)),
            block_devices=tuple(
                BlockDevice(f"nvme{number}n1", f"0000:{int(bus, 16) + 5:02x}:00.0", number // 2, 3840755982336, False,
                            "SAMSUNG MZQL23T8HCLS-00A07", "nvme")
                for number, bus in enumerate(GPU_ROOTS)
            ),
        )
    )  # fmt: skip


def _gpu_switch(number: int, bus: int) -> tuple[PciFunction, ...]:
    """Return a root port and a PCIe switch with three downstream ports: an HCA, a GPU, an NVMe drive."""
    root, zone = f"pci0000:{bus:02x}", number // 2
    port, up = f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
    downs = tuple(f"0000:{bus + 2:02x}:{index:02x}.0" for index in range(3))

    def slot(place: int, link: PciLink) -> Slot:
        return Slot(root, (port, up, downs[place]), zone, link)

    full, idle, drive = PciLink(32.0, 16, 32.0, 16), PciLink(2.5, 16, 32.0, 16), PciLink(16.0, 4, 16.0, 4)
    return (
        function(port, "0604", ("8086", "352a"), Slot(root, (), zone)),
        function(up, "0604", ("1000", "c030"), Slot(root, (port,), zone)),
        *(function(down, "0604", ("1000", "c030"), Slot(root, (port, up), zone)) for down in downs),
        function(f"0000:{bus + 3:02x}:00.0", "0207", ("15b3", "1021"), slot(0, full), driver="mlx5_core"),
        function(f"0000:{bus + 4:02x}:00.0", "0302", ("10de", "2330"), slot(1, idle if number == 5 else full)),
        function(f"0000:{bus + 5:02x}:00.0", "0108", ("144d", "a80a"), slot(2, drive), driver="nvme"),
    )


def _hopper(number: int, bus: int) -> Gpu:
    peers = tuple(
        NvLinkPeer(f"0000:{int(other, 16) + 4:02x}:00.0", "gpu", 18, 4)
        for index, other in enumerate(GPU_ROOTS)
        if index != number
    )
    return Gpu(
        address=f"0000:{bus + 4:02x}:00.0",
        uuid=f"GPU-00000000-0000-0000-0000-{number:012d}",
        vendor="nvidia",
        model="NVIDIA H100 80GB HBM3",
        memory=81559 * MIB,
        zone=number // 2,
        driver="nvidia",
        mig=Mig(enabled=False, pending=False),
        fabric=Fabric("completed", "success", None, None),
        health=Health(ecc_enabled=True, ecc_corrected=0, ecc_uncorrected=0),
        number=number,
        driver_version="550.90.07",
        cuda_version="12.4",
        architecture="hopper",
        compute_capability="9.0",
        nvlinks=peers,
    )


def _hca(number: int, bus: int) -> RdmaDevice:
    port = Port(1, "ACTIVE", "LinkUp", 400.0, "InfiniBand", 17 + number, 1, (), {}, {}, "400 Gb/sec (4X NDR)")
    address = f"0000:{bus + 3:02x}:00.0"
    return RdmaDevice(
        f"mlx5_{number}", address, number // 2, f"9c63:c003:00f2:{number:04x}", "28.39.2048", "MT_0000000838",
        (port,), "MT4129", "CA", (f"ib{number}",),
    )  # fmt: skip


def _dual_port_nic() -> tuple[tuple[Nic, ...], tuple[PciFunction, ...]]:
    """Return an Ethernet card with two ports, one without a cable, 4 virtual functions, and half of its lanes lost."""
    slot = Slot("pci0000:00", ("0000:00:0c.0",), 0, PciLink(16.0, 4, 16.0, 8))
    names = ("eno1np0", "eno2np1")
    nics = tuple(
        Nic(name, f"0000:02:00.{port}", 0, "bnxt_en", (25000, None)[port], ("up", "down")[port], None, "Ethernet",
            Sriov(64, 4 if port == 0 else 0), None, 1500, port=port)
        for port, name in enumerate(names)
    )  # fmt: skip
    virtual = tuple(
        function(f"0000:02:02.{place}", "0200", ("14e4", "1806"), slot._replace(link=None),
                 physical_function="0000:02:00.0")
        for place in range(4)
    )  # fmt: skip
    physical = (
        function("0000:00:0c.0", "0604", ("8086", "1bbf"), Slot("pci0000:00", (), 0)),
        function("0000:02:00.0", "0200", ("14e4", "1751"), slot, driver="bnxt_en", sriov=Sriov(64, 4)),
        function("0000:02:00.1", "0200", ("14e4", "1751"), slot, driver="bnxt_en", sriov=Sriov(64, 0)),
    )
    return nics, (*physical, *virtual)


def big_machine() -> Machine:
    """Return 256 CPUs: 2 packages of 4 zones of 2 L3 groups of 8 cores of 2 threads; some CPUs are isolated."""
    machine = processors(
        Processors(packages=2, zones=4, l3_groups=2, cores=8, threads=2),
        CacheSizes(32 * KIB, 32 * KIB, 512 * KIB, 32 * MIB),
        "AMD EPYC 7763 64-Core Processor",
        128 * GIB,
    )
    near, far = (12,) * 4, (32,) * 4
    rows = tuple(
        tuple(10 if a == b else value for b, value in enumerate((near + far) if a < 4 else (far + near)))
        for a in range(8)
    )
    return with_distances(machine, rows)._replace(
        hostname="epyc-2",
        product="HPE ProLiant DL385 Gen10 Plus",
        kernel=Kernel("5.14.0-427.el9.x86_64"),
        cpus=machine.cpus._replace(isolated=cpus("62-63,190-191"), nohz_full=cpus("62-63,190-191")),
    )


def hybrid() -> Machine:
    """Return a laptop: 4 performance cores of 2 threads, 8 efficiency cores in 2 clusters, an integrated GPU."""
    fast = [CpuSet((2 * number, 2 * number + 1)) for number in range(4)]
    small = [CpuSet((cpu,)) for cpu in range(8, 16)]
    clusters = (cpus("8-11"), cpus("12-15"))
    everything = cpus("0-15")
    model = "12th Gen Intel(R) Core(TM) i7-1260P"
    root = Slot("pci0000:00", (), 0, None)
    drive = Slot("pci0000:00", ("0000:00:06.0",), 0, PciLink(16.0, 4, 16.0, 4))
    machine = Machine(
        architecture="x86_64",
        hostname="laptop",
        product="LENOVO ThinkPad T14 Gen 3",
        kernel=Kernel("6.8.4-arch1-1"),
        cpus=Cpus(everything, EMPTY, possible=everything, allowed=everything),
        model=Model(name=model),
        packages=(Package(0, everything, model),),
        clusters=tuple(Cluster(8 * (number + 4), 0, held) for number, held in enumerate(clusters)),
        cores=tuple(Core(4 * number, 0, 0, held, "performance") for number, held in enumerate(fast))
        + tuple(Core(32 + number, 0, 0, held, "efficiency") for number, held in enumerate(small)),
        core_kinds=(
            CoreKind("performance", cpus("0-7"), max_mhz=4700),
            CoreKind("efficiency", cpus("8-15"), max_mhz=3400),
        ),
        caches=(
            *(Cache(1, "Data", 48 * KIB, held) for held in fast),
            *(Cache(1, "Data", 32 * KIB, held) for held in small),
            *(Cache(1, "Instruction", 32 * KIB, held) for held in fast),
            *(Cache(1, "Instruction", 64 * KIB, held) for held in small),
            *(Cache(2, "Unified", 1280 * KIB, held) for held in fast),
            *(Cache(2, "Unified", 2 * MIB, held) for held in clusters),
            Cache(3, "Unified", 18 * MIB, everything),
        ),
        zones=(Zone(0, everything, everything, 33_348_571_136, {}, {"0": 10}, "cpu"),),
        memory=33_348_571_136,
        pci=(
            function("0000:00:02.0", "0300", ("8086", "46a6"), root, driver="i915"),
            function("0000:00:06.0", "0604", ("8086", "464d"), root),
            function("0000:00:14.3", "0280", ("8086", "51f0"), root, driver="iwlwifi"),
            function("0000:04:00.0", "0108", ("144d", "a80a"), drive, driver="nvme"),
        ),
        gpus=(Gpu("0000:00:02.0", None, "intel", "Iris Xe Graphics", None, 0, "i915", None, None, None, number=0),),
        nics=(Nic("wlp0s20f3", "0000:00:14.3", 0, "iwlwifi", None, "up", None, "Ethernet", None, None),),
        block_devices=(BlockDevice("nvme0n1", "0000:04:00.0", 0, 1024209543168, False, "SAMSUNG MZVL21T0", "nvme"),),
    )
    return with_links(machine)


def tiered_memory() -> Machine:
    """Return a machine with DRAM, HBM beside each CPU zone, CXL near both packages, and persistent memory as DAX."""
    machine = processors(
        Processors(packages=2, zones=1, l3_groups=1, cores=16, threads=1),
        CacheSizes(48 * KIB, 32 * KIB, 2 * MIB, 60 * MIB),
        "Intel(R) Xeon(R) CPU Max 9462",
        256 * GIB,
    )
    first, second = (zone._replace(tier=4, medium="DRAM") for zone in machine.zones)
    fast = Access(0, (0,), 400_000, 380_000, 30, 30)
    zones = (
        first._replace(hugepages={"2Mi": 1024, "1Gi": 0}, side_caches=(MemorySideCache(1, 16 * GIB, 64),)),
        second,
        Zone(2, EMPTY, first.cpus, 64 * GIB, {}, {}, "memory", (0,), (fast,), tier=3, medium="HBM"),
        Zone(3, EMPTY, second.cpus, 64 * GIB, {}, {}, "memory", (1,), (fast._replace(initiators=(1,)),), (), 3, "HBM"),
        Zone(4, EMPTY, machine.cpus.online, 512 * GIB, {}, {}, "memory", None, tier=6),
    )
    machine = with_distances(
        machine._replace(zones=zones),
        ((10, 21, 13, 23, 28), (21, 10, 23, 13, 28), (13, 23, 10, 23, 30), (23, 13, 23, 10, 30), (28, 28, 30, 30, 10)),
    )
    return machine._replace(
        hostname="hbm-1",
        product="Intel Reference Platform",
        kernel=Kernel("6.6.30"),
        memory=sum(zone.memory or 0 for zone in zones),
        dax_devices=(DaxDevice("dax0.0", 0, 126 * GIB, "device_dax", "NVM"),),
    )


def grace_blackwell() -> Machine:
    """Return a node of 2 Arm packages and 4 coherent GPUs: each GPU's memory is a zone, and more zones are for MIG."""
    of_core = [CpuSet((number,)) for number in range(144)]
    packages = (cpus("0-71"), cpus("72-143"))
    sizes = ((1, "Data", 64 * KIB), (1, "Instruction", 64 * KIB), (2, "Unified", 1 * MIB))
    gpu_address = ("0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0")
    hca_address = ("0000:03:00.0", "0002:03:00.0", "0010:03:00.0", "0012:03:00.0")
    memory_zones: list[Zone] = []
    for number, address in enumerate(gpu_address):
        first = 2 + 8 * number
        memory_zones += [
            Zone(first + index, EMPTY, packages[number // 2], 198_656_000_000 if index == 0 else 0, {}, {}, "device",
                 medium="GPU" if index == 0 else None, device=address if index == 0 else None)
            for index in range(8)
        ]  # fmt: skip
    machine = Machine(
        architecture="aarch64",
        hostname="nvl72-04",
        product="NVIDIA GB200 NVL",
        kernel=Kernel("6.8.0-1013-nvidia-64k"),
        cpus=Cpus(cpus("0-143"), EMPTY, possible=cpus("0-143"), allowed=cpus("0-143")),
        model=Model(name="Neoverse-V2"),
        packages=tuple(Package(number, held, "Neoverse-V2") for number, held in enumerate(packages)),
        cores=tuple(Core(number, number // 72, number // 72, held) for number, held in enumerate(of_core)),
        caches=tuple(Cache(level, kind, size, held) for level, kind, size in sizes for held in of_core)
        + tuple(Cache(3, "Unified", 114 * MIB, held) for held in packages),
        zones=(
            *(Zone(number, held, held, 514_048_000_000, {}, {}, "cpu") for number, held in enumerate(packages)),
            *memory_zones,
        ),
        memory=2 * 514_048_000_000,
        pci=tuple(
            sorted(
                [part for number, address in enumerate(gpu_address) for part in _behind_port(address, number // 2)]
                + [part for number, address in enumerate(hca_address) for part in _behind_port(address, number // 2)]
            )
        ),
        gpus=tuple(
            _hopper(number, 0)._replace(
                address=address, model="NVIDIA GB200", memory=189_471 * MIB, zone=number // 2,
                memory_zone=2 + 8 * number,
                fabric=Fabric("completed", "success", "3f8a1c5e-0000-4000-8000-000000000001", 1, attached=True),
                nvlinks=(NvLinkPeer(None, "switch", 18, 5),), architecture="blackwell", compute_capability="10.0",
            )
            for number, address in enumerate(gpu_address)
        ),
        infiniband=tuple(
            _hca(number, 0)._replace(address=address, zone=number // 2, netdevs=(), hca_type="MT4131")
            for number, address in enumerate(hca_address)
        ),
    )  # fmt: skip
    return with_links(machine)


def _behind_port(address: str, zone: int) -> tuple[PciFunction, ...]:
    """Return a root port, for bus 3 also a switch, and the device below it."""
    domain = address[:4]
    root, port = f"pci{domain}:00", f"{domain}:00:00.0"
    if address[5:7] == "01":
        device = function(address, "0302", ("10de", "2941"), Slot(root, (port,), zone))
        return function(port, "0604", ("10de", "22b8"), Slot(root, (), zone)), device
    up, down = f"{domain}:01:00.0", f"{domain}:02:00.0"
    return (
        function(port, "0604", ("10de", "22b1"), Slot(root, (), zone)),
        function(up, "0604", ("15b3", "1979"), Slot(root, (port,), zone)),
        function(down, "0604", ("15b3", "1979"), Slot(root, (port, up), zone)),
        function(address, "0207", ("15b3", "1023"), Slot(root, (port, up, down), zone)),
    )


ALL = {
    "small_vm": small_vm,
    "gpu_server": gpu_server,
    "big_machine": big_machine,
    "hybrid": hybrid,
    "tiered_memory": tiered_memory,
    "grace_blackwell": grace_blackwell,
}
"""Every builder by name."""
