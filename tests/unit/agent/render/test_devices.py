"""The devices and the summary of a machine in a picture."""

from __future__ import annotations

import pytest

from support.machine_parts import Slot, function, with_distances
from support.machines import ALL, gpu_server, grace_blackwell, small_vm
from support.pictures import boxes_in, device, devices_in, devices_of, named
from zonewise.machine.model.gpu import Health, NvLinkPeer, XgmiPeer
from zonewise.machine.model.network import Nic
from zonewise.render.boxes import Bus, Device
from zonewise.render.layout import layout


@pytest.mark.parametrize("name", ALL)
def test_every_device_is_present_once(name: str) -> None:
    """GPUs, hardware network devices and drives occur once in the picture, whatever their zone is."""
    machine = ALL[name]()
    names = [part for entry in devices_in(layout(machine)) for name in entry.names for part in name.split("/")]
    expected = [nic.name for nic in machine.nics if not nic.virtual] + [drive.name for drive in machine.block_devices]
    expected += [f"GPU{number}" for number in range(len(machine.gpus))] + [entry.name for entry in machine.infiniband]
    assert sorted(names) == sorted([*expected, *(dax.name for dax in machine.dax_devices)])


def test_devices_are_below_their_switch() -> None:
    """A switch and its host bridge are one bus, on which the GPU is first."""
    buses = named(layout(gpu_server()), "Zone 1").devices
    assert [bus.names for bus in buses if isinstance(bus, Bus)] == [
        ("PCI 0000:37", "switch 38:00.0"),
        ("PCI 0000:48", "switch 49:00.0"),
    ]
    assert [entry.names for entry in devices_of(buses[:1])] == [("GPU2",), ("mlx5_2/ib2",), ("nvme2n1",)]


def test_a_single_device_needs_no_bus() -> None:
    """A host bridge with one device is omitted."""
    assert all(isinstance(item, Device) for item in named(layout(grace_blackwell()), "Zone 0").devices)


def test_devices_of_unknown_zone_are_a_group_of_their_own() -> None:
    """No zone is guessed for them, nor for devices whose zone does not exist."""
    machine = small_vm()
    pci = tuple(entry._replace(zone=None) for entry in machine.pci)
    nics = tuple(entry._replace(zone=None) for entry in machine.nics)
    drives = tuple(entry._replace(zone=7) for entry in machine.block_devices)
    picture = layout(machine._replace(pci=pci, nics=nics, block_devices=drives))
    assert sorted(name for entry in devices_of(picture.devices) for name in entry.names) == [
        "ens3",
        "vda",
    ]
    assert all(not box.devices for box in boxes_in(picture.boxes))


def test_links_show_the_current_and_the_possible_speed() -> None:
    """A narrower link is a warning; a slower one is not, since idle devices save power."""
    machine = gpu_server()
    assert device(machine, "GPU0").link == "Gen5 x16"
    assert (device(machine, "GPU5").link, device(machine, "GPU5").warnings) == ("Gen1/5 x16", ())
    ethernet = device(machine, "eno1np0")
    assert (ethernet.link, ethernet.warnings) == ("Gen4 x4/8", ("link degraded to x4",))
    assert "Gen4 x4/8: a link that runs slower" in " ".join(layout(machine).notes)


def test_virtual_functions_fold_into_their_physical_one() -> None:
    """They are counted at their physical function and not listed, even if they have netdevs and drives."""
    machine = gpu_server()
    virtual = Nic("eno1v0", "0000:02:02.0", 0, None, None, "up", None, "Ethernet", None, None)
    machine = machine._replace(nics=(*machine.nics, virtual))
    assert device(machine, "eno1np0").notes == ("+ 4 VFs",)
    assert not any("eno1v0" in entry.names for entry in devices_in(layout(machine)))


def test_a_virtual_function_without_its_physical_one_is_shown() -> None:
    """In a virtual machine, no other part of the card is visible."""
    machine = small_vm()
    nics = (machine.nics[0]._replace(physical_function="0000:99:00.0"),)
    assert device(machine._replace(nics=nics), "ens3").description == "Ethernet 10 Gb/s"


def test_an_rdma_device_behind_a_bond_is_shown() -> None:
    """The bond is software and omitted; its adapter is not."""
    machine = gpu_server()
    nics = tuple(nic for nic in machine.nics if nic.rdma != "mlx5_0")
    bond = machine.nics[0]._replace(name="bond0", address=None, virtual=True, kind="bond", rdma="mlx5_0")
    assert device(machine._replace(nics=(*nics, bond)), "mlx5_0").description == "InfiniBand 400 Gb/s"


def test_software_devices_are_only_counted() -> None:
    """Bridges and similar devices are counted below the picture; the loopback device is omitted."""
    machine = small_vm()
    bridge = machine.nics[1]._replace(name="br0", kind="bridge")
    assert layout(machine).notes == ()
    assert layout(machine._replace(nics=(*machine.nics, bridge))).notes == ("1 software network device not shown",)


def test_equal_drives_are_one_line_and_gpus_are_not() -> None:
    """Four equal drives behind one host bridge are a range; GPUs are not, since users look for them by number."""
    machine = small_vm()
    slot = Slot("pci0000:00", (), 0)
    drive, gpu = machine.block_devices[0], gpu_server().gpus[0]
    numbers = range(5, 9)
    machine = machine._replace(
        pci=tuple(function(f"0000:{number:02x}:00.0", "0108", ("144d", "a80a"), slot) for number in numbers)
        + tuple(function(f"0000:{number:02x}:01.0", "0302", ("10de", "2330"), slot) for number in numbers),
        block_devices=tuple(drive._replace(name=f"nvme{p - 5}n1", address=f"0000:{p:02x}:00.0") for p in numbers),
        gpus=tuple(gpu._replace(number=p - 5, zone=0, address=f"0000:{p:02x}:01.0", nvlinks=()) for p in numbers),
        nics=(),
    )
    names = [entry.names for entry in devices_in(layout(machine))]
    assert names == [("GPU0",), ("GPU1",), ("GPU2",), ("GPU3",), ("nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1")]


def test_a_drive_that_no_driver_has_claimed_is_shown_by_its_ids() -> None:
    """An NVMe drive assigned to a virtual machine is still hardware of this machine."""
    machine = small_vm()
    own = function("0000:00:09.0", "0108", ("144d", "a80a"), Slot("pci0000:00", (), 0), driver="vfio-pci")
    drive = device(machine._replace(pci=(*machine.pci, own)), "NVMe0")
    assert (drive.description, drive.notes, drive.addresses) == ("NVMe 144d:a80a", ("driver vfio-pci",), ("00:09.0",))


def test_a_gpu_without_a_model_is_shown_by_its_ids() -> None:
    """Without a driver, PCI has the vendor and the number of the model."""
    machine = gpu_server()
    machine = machine._replace(gpus=tuple(gpu._replace(model=None, memory=None) for gpu in machine.gpus))
    assert device(machine, "GPU0").description == "NVIDIA GPU 10de:2330"
    assert layout(machine).facts[1][-1] == "8 × NVIDIA GPU"


def test_a_netdev_in_another_namespace_is_shown() -> None:
    """A NIC whose netdev was moved into a pod is listed with its ids and a note."""
    machine = small_vm()
    nic = machine.nics[0]._replace(name="0000:00:03.0", presence="other namespace", speed_mbps=None, link_layer=None)
    shown = device(machine._replace(nics=(nic,)), "network")
    assert (shown.description, shown.notes) == ("1af4:1041", ("in another network namespace",))


def test_a_link_that_is_down_is_shown() -> None:
    """The state "up" is omitted; every other state is shown, including that of an InfiniBand port."""
    machine = gpu_server()
    assert device(machine, "eno2np1").state == "down"
    [port] = machine.infiniband[0].ports
    broken = machine.infiniband[0]._replace(ports=(port._replace(state="INIT"),))
    machine = machine._replace(infiniband=(broken, *machine.infiniband[1:]))
    assert device(machine, "mlx5_0/ib0").state == "port init"


def test_failing_gpus_are_shown() -> None:
    """Errors, pending remedies and hardware throttling are shown at the GPU; a healthy GPU has none."""
    machine = gpu_server()
    health = Health(ecc_uncorrected=3, recovery_action="reset gpu", throttle_reasons=("hw thermal", "sw power cap"))
    machine = machine._replace(gpus=(machine.gpus[0]._replace(health=health, state="lost"), *machine.gpus[1:]))
    assert device(machine, "GPU0").warnings == ("lost", "3 uncorrected ECC errors", "needs: reset gpu", "hw thermal")
    assert device(machine, "GPU1").warnings == ()


# --- header and notes


def test_the_header_describes_the_machine() -> None:
    """It has product, host name, architecture, kernel, guest, counts, memory and GPUs."""
    assert layout(small_vm()).title == ("QEMU Standard PC (Q35 + ICH9, 2009)", "vm-1")
    assert layout(small_vm()).facts == (
        ("x86_64", "Linux 6.1.0-28-cloud-amd64", "KVM guest"),
        ("4 CPUs", "2 cores", "1 package", "1 zone", "15.6 GiB memory"),
    )
    assert layout(gpu_server()).facts[1][-1] == "8 × NVIDIA H100 80GB HBM3"
    assert "34 zones (32 without CPUs)" in layout(grace_blackwell()).facts[1]


def test_unknown_is_not_zero_in_the_header() -> None:
    """Unknown facts are omitted or called unknown, never counted as 0."""
    machine = small_vm()._replace(memory=None, zones=(), hostname=None, product=None)
    picture = layout(machine)
    assert picture.title == ("Intel Xeon Platinum 8273CL",)
    assert picture.facts[1] == ("4 CPUs", "2 cores", "1 package", "zones unknown")


def test_nvlinks_are_grouped_by_linked_gpus() -> None:
    """If all eight GPUs are linked with each other, one note suffices; without one pair, there are several groups."""
    machine = gpu_server()
    assert "NVLink: GPU0..GPU7, all connected to each other by NV18" in layout(machine).notes
    pair = {machine.gpus[0].address, machine.gpus[1].address}
    cut = tuple(link._replace(relation="NODE") if {link.a, link.b} == pair else link for link in machine.links)
    notes = layout(machine._replace(links=cut)).notes
    assert any("GPU2" in note and "GPU7" in note and "NV18" in note for note in notes)
    assert not any(note.startswith("NVLink: GPU0..GPU7") for note in notes)


def test_switched_nvlinks_and_xgmi_are_shown() -> None:
    """Links to a switch are listed by GPU; links of AMD GPUs have their own name."""
    assert layout(grace_blackwell()).notes == (
        "NVLink: GPU0..GPU3, 18 links each to an NVLink switch",
        "NVLink domain 3f8a1c5e-0000-4000-8000-000000000001, clique 1: 4 GPUs of this machine",
    )
    machine = grace_blackwell()
    links = (4, 4, 5, 5)
    peers = tuple(NvLinkPeer(f"0000:{bus:02x}:00.0", "switch", count) for bus, count in enumerate(links, 3))
    alone = machine.gpus[0]._replace(nvlinks=peers, fabric=None)
    assert layout(machine._replace(gpus=(alone,))).notes == ("NVLink: GPU0, 18 links to 4 NVLink switches",)
    first, second = (gpu._replace(nvlinks=(), fabric=None) for gpu in machine.gpus[:2])
    first = first._replace(xgmi=(XgmiPeer(second.address or "", 3, None, 15),))
    assert layout(machine._replace(gpus=(first, second))).notes == (
        "XGMI: GPU0, GPU1, connected to each other by 3 links",
    )


def test_distances_are_a_table_only_where_they_differ() -> None:
    """One zone has no distances, two different numbers are a note, and more are a table."""
    assert layout(small_vm()).distances == ()
    assert next(row for _, row in layout(gpu_server()).distances) == (10, 12, 21, 21)
    machine = with_distances(grace_blackwell()._replace(zones=grace_blackwell().zones[:2]), ((10, 40), (40, 10)))
    assert layout(machine).distances == ()
    assert layout(machine).notes[0] == "Distances: 10 within a zone, 40 between zones"


def test_an_unknown_distance_requires_the_table() -> None:
    """An unknown distance is shown as unknown and does not count as equal."""
    machine = with_distances(grace_blackwell()._replace(zones=grace_blackwell().zones[:2]), ((10, 40), (40, 10)))
    first, second = machine.zones
    machine = machine._replace(zones=(first, second._replace(distances={})))
    assert layout(machine).distances == ((0, (10, 40)), (1, (None, None)))


def test_a_port_narrower_than_its_device() -> None:
    """The slot is narrower; the link has not lost lanes."""
    machine = gpu_server()
    gpu = next(function for function in machine.pci if function.address == machine.gpus[0].address)
    port = next(function for function in machine.pci if function.address == gpu.parent)
    assert gpu.link is not None
    narrow = gpu.link._replace(width=8, max_width=16)
    for lanes, warning in ((8, "its port has x8, of x16"), (16, "link degraded to x8"), (None, "link degraded to x8")):
        links = {gpu.address: narrow, port.address: narrow._replace(width=lanes, max_width=lanes)}
        pci = tuple(function._replace(link=links.get(function.address, function.link)) for function in machine.pci)
        assert device(machine._replace(pci=pci), "GPU0").warnings == (warning,)


def test_a_shared_driver_is_named_once() -> None:
    """For four devices or more, the driver is named below the picture; otherwise, beside each device."""
    machine = gpu_server()
    for count in (3, 4, 8):
        gpus = tuple(gpu._replace(driver="vfio-pci" if i < count else gpu.driver) for i, gpu in enumerate(machine.gpus))
        picture = layout(machine._replace(gpus=gpus))
        beside = [held.names[0] for held in devices_in(picture) if "driver vfio-pci" in held.notes]
        below = [note for note in picture.notes if note.startswith("Driver")]
        if count < 4:
            assert (beside, below) == (["GPU0", "GPU1", "GPU2"], [])
        else:
            assert (beside, below) == ([], [f"Driver vfio-pci: GPU0..GPU{count - 1}"])


def test_a_shared_driver_names_each_device() -> None:
    """If other devices are between them, the note has no range from the first to the last."""
    machine = gpu_server()
    drivers = ("vfio-pci", "nvidia", "vfio-pci", "vfio-pci", "vfio-pci", "nvidia", "nvidia", "vfio-pci")
    gpus = tuple(gpu._replace(driver=driver) for gpu, driver in zip(machine.gpus, drivers, strict=True))
    assert "Driver vfio-pci: GPU0, GPU2..GPU4, GPU7" in layout(machine._replace(gpus=gpus)).notes


def test_names_of_pci_ids() -> None:
    """A GPU without a driver has the name of its product; the driver's name takes precedence."""
    machine = gpu_server()
    address = machine.gpus[0].address
    pci = tuple(
        function._replace(name="GH100 [H100 SXM5 80GB]") if function.address == address else function
        for function in machine.pci
    )
    unnamed = machine._replace(pci=pci, gpus=(machine.gpus[0]._replace(model=None, memory=None), *machine.gpus[1:]))
    assert device(unnamed, "GPU0").description == "NVIDIA H100 SXM5 80GB"
    assert "NVIDIA H100 SXM5 80GB" in layout(unnamed).facts[1]
    assert device(machine._replace(pci=pci), "GPU0").description.startswith(machine.gpus[0].model or "-")
