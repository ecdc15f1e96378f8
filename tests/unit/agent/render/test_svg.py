"""The vector picture."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from support.any_machines import any_machines
from support.machine_parts import GIB, MIB, CacheSizes, Processors, cpus, processors
from support.machines import ALL, big_machine, gpu_server, grace_blackwell, hybrid, small_vm
from zonewise.machine.model.cpu import Core
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.problem import Problem
from zonewise.render.matrix import matrix_table
from zonewise.render.shapes import escape_xml, shortened, text_width
from zonewise.render.svg import render_svg
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator

SVG = "{http://www.w3.org/2000/svg}"
SLACK = 0.2  # coordinates have one decimal


class Frame(NamedTuple):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: Frame) -> bool:
        """Return whether another rectangle is inside."""
        return (
            other.left >= self.left - SLACK
            and other.top >= self.top - SLACK
            and other.right <= self.right + SLACK
            and other.bottom <= self.bottom + SLACK
        )

    def overlaps(self, other: Frame) -> bool:
        """Return whether another rectangle shares more than an edge."""
        apart_x = self.right <= other.left + SLACK or other.right <= self.left + SLACK
        apart_y = self.bottom <= other.top + SLACK or other.bottom <= self.top + SLACK
        return not (apart_x or apart_y)


def parsed(machine: Machine) -> ElementTree.Element:
    """Return the root element of a picture."""
    return ElementTree.fromstring(render_svg(machine))  # noqa: S314 -- our own output


def frame_of(group: ElementTree.Element) -> Frame:
    """Return the rectangle that a group draws."""
    rect = group.find(f"{SVG}rect")
    assert rect is not None
    x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
    return Frame(x, y, x + width, y + height)


def view_of(root: ElementTree.Element) -> Frame:
    """Return the view box."""
    return Frame(*(float(number) for number in root.attrib["viewBox"].split()))


def text_frame(text: ElementTree.Element) -> Frame:
    """Return the largest rectangle that a text may take."""
    size = float(text.attrib["font-size"])
    width = text_width(text.text or "", size, text.attrib.get("class", ""))
    x, y = float(text.attrib["x"]), float(text.attrib["y"])
    left = x - width if text.attrib.get("text-anchor") == "end" else x
    return Frame(left, y - size * 0.8, left + width, y + size * 0.25)


def groups_in(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Yield every drawn group."""
    return root.iter(f"{SVG}g")


def check_geometry(machine: Machine) -> None:
    """Fail if something is outside its container or overlaps a sibling."""
    root = parsed(machine)
    view = view_of(root)
    for group in groups_in(root):
        frame = frame_of(group)
        assert view.holds(frame)
        inner = [frame_of(child) for child in group.findall(f"{SVG}g")]
        assert all(frame.holds(child) for child in inner)
        assert not any(first.overlaps(second) for i, first in enumerate(inner) for second in inner[i + 1 :])
        texts = [text_frame(text) for text in group.findall(f"{SVG}text")]
        assert all(frame.holds(text) for text in texts)
        assert not any(text.overlaps(child) for text in texts for child in inner)
        assert not any(first.overlaps(second) for i, first in enumerate(texts) for second in texts[i + 1 :])


def texts_in(machine: Machine) -> list[str]:
    """Return every text of a picture in drawing order."""
    return [text.text or "" for text in parsed(machine).iter(f"{SVG}text")]


def drawn(machine: Machine, kind: str) -> list[ElementTree.Element]:
    """Return the groups of a kind."""
    return [group for group in groups_in(parsed(machine)) if group.attrib["class"] == kind]


def test_the_matrix_is_in_the_picture() -> None:
    """Every cell and the meanings are in the picture; a machine with one device has no matrix."""
    machine = gpu_server()
    table = matrix_table(machine, everything=False)
    texts = Counter(texts_in(machine))
    cells = Counter(cell for line in table.cells for cell in line)
    assert all(texts[cell] >= count for cell, count in cells.items())
    assert all(f"{relation}: {meaning}" in texts for relation, meaning in table.meanings())
    assert not any(text.startswith("X: ") for text in texts_in(small_vm()._replace(nics=(), accelerators=())))


# --- geometry


@pytest.mark.parametrize("name", ALL)
def test_nothing_overlaps(name: str) -> None:
    """Boxes are inside their boxes, texts are inside theirs, siblings are disjoint, and everything is in view."""
    check_geometry(ALL[name]())


@settings(max_examples=25, deadline=None)
@given(any_machines())
def test_nothing_of_any_machine_overlaps(machine: Machine) -> None:
    """The same holds for overlapping parts, missing facts and absurd names, for which the XML is also valid."""
    check_geometry(machine)


@pytest.mark.parametrize("name", ALL)
def test_the_shape_is_that_of_a_page(name: str) -> None:
    """No picture is a strip or too wide to be readable when fitted to a screen."""
    view = view_of(parsed(ALL[name]()))
    assert 0.5 < view.right / view.bottom < 3
    assert view.right < 1700


def test_the_view_is_that_of_the_content() -> None:
    """The page ends one margin after the outermost boxes."""
    for build in ALL.values():
        root = parsed(build())
        [document] = root.findall(f"{SVG}g")
        boxes = [frame_of(child) for child in document.findall(f"{SVG}g")]
        assert max(box.right for box in boxes) == pytest.approx(view_of(root).right - 24, abs=1)


def test_a_legend_of_many_words_takes_several_lines() -> None:
    """Small machines with every kind of core have a legend that is wider than their picture."""
    machine = small_vm()
    states = machine.cpus._replace(isolated=cpus("1"), allowed=cpus("1-3"), offline=cpus("4"), online=cpus("0-3"))
    kinds = ("performance", "efficiency")
    cores = tuple(Core(cpu, 0, 0, CpuSet((cpu,)), kinds[cpu % 2]) for cpu in range(4))
    check_geometry(machine._replace(cpus=states, cores=cores))


# --- content


def test_the_look_of_a_small_machine() -> None:
    """All texts are compared in order, so that a change is deliberate."""
    assert texts_in(small_vm()) == [
        "QEMU Standard PC (Q35 + ICH9, 2009) · vm-1",
        "x86_64 · Linux 6.1.0-28-cloud-amd64 · KVM guest",
        "4 CPUs · 2 cores · 1 package · 1 zone · 15.6 GiB memory",
        "Package 0 · Zone 0",
        "15.6 GiB · Intel Xeon Platinum 8273CL",
        "L3 39 MiB",
        "2 cores × 2 threads",
        "CPUs 0-3",
        "L1d 32 KiB, L1i 32 KiB",
        "L2 1 MiB each",
        "PCI 0000:00",
        "ens3",
        "Ethernet 10 Gb/s",
        "00:03.0",
        "vda",
        "virtio 50 GiB",
        "00:04.0",
        "NUMA zone",
        "core",
    ]


@pytest.mark.parametrize("name", ["small_vm", "gpu_server", "big_machine", "hybrid", "grace_blackwell"])
def test_every_core_is_a_square_with_its_cpus(name: str) -> None:
    """There are as many squares as cores, each with the numbers of its CPUs as a tooltip."""
    machine = ALL[name]()
    titles = [title.text for core in drawn(machine, "core") if (title := core.find(f"{SVG}title")) is not None]
    expected = [f"{'CPU' if len(core.cpus) == 1 else 'CPUs'} {core.cpus}" for core in machine.cores]
    assert sorted(str(title) for title in titles) == sorted(expected)


def test_thousands_of_cores_are_not_drawn_one_by_one() -> None:
    """More squares than a person can distinguish are replaced by the text."""
    machine = processors(Processors(1, 1, 1, 1024, 1), CacheSizes(MIB, MIB, 0, 0), "cpu", GIB)
    assert len(drawn(machine, "core")) <= 1
    assert "1024 cores" in texts_in(machine)


def test_isolated_and_efficient_cores_look_different() -> None:
    """They differ by fill or outline, which the legend explains."""
    kinds = {rect.attrib["class"] for rect in parsed(big_machine()).iter(f"{SVG}rect")}
    assert {"core", "core isolated"} <= kinds
    kinds = {rect.attrib["class"] for rect in parsed(hybrid()).iter(f"{SVG}rect")}
    assert {"core performance", "core efficiency"} <= kinds
    assert {"performance core", "efficiency core"} <= set(texts_in(hybrid()))


def test_every_device_has_a_card_with_its_link() -> None:
    """GPUs, HCAs and drives have name, model, link and address; a degraded link is a warning."""
    machine = gpu_server()
    assert len(drawn(machine, "device")) == 8 * 3 + 2
    texts = texts_in(machine)
    assert {"GPU0", "NVIDIA H100 80GB HBM3", "Gen5 x16", "19:00.0", "mlx5_0/ib0", "nvme0n1"} <= set(texts)
    assert texts.count("! link degraded to x4") == 2
    assert "NVLink: GPU0..GPU7, all connected to each other by NV18" in texts


def test_memory_without_cpus_is_in_the_nearest_box() -> None:
    """A coherent GPU's memory is inside the zone whose CPUs are nearest."""
    zones = drawn(grace_blackwell(), "zone")
    first = next(zone for zone in zones if zone.findtext(f"{SVG}text") == "Package 0 · Zone 0")
    cards = [[text.text for text in card.iter(f"{SVG}text")] for card in first.findall(f"{SVG}g[@class='memory']")]
    assert ["Zone 2", "no CPUs · 185 GiB · memory of GPU0"] in cards


def test_problems_are_counted() -> None:
    """The picture notes that the source was damaged; the list of problems has the details."""
    machine = small_vm()._replace(problems=(Problem("/a", "is empty"), Problem("/b", "is empty")))
    assert "2 problems with the sources" in texts_in(machine)


def test_an_empty_machine_has_a_picture() -> None:
    """It has a title and shows nothing that is unknown."""
    assert texts_in(Machine()) == ["Linux machine", "zones unknown"]


# --- the document


def test_it_is_accessible_and_self_contained() -> None:
    """It has a title and a description for screen readers, and no script, font or external image."""
    text = render_svg(gpu_server())
    root = parsed(gpu_server())
    assert root.findtext(f"{SVG}title") == "Supermicro SYS-821GE-TNHR · gpu-7"
    assert "224 CPUs" in (root.findtext(f"{SVG}desc") or "")
    assert root.attrib["role"] == "img"
    assert {root.attrib["viewBox"]} == {f"0 0 {root.attrib['width']} {root.attrib['height']}"}
    assert not re.search(r"<script|href|url\(|@import|<image|on\w+=", text)


def test_every_class_has_a_style() -> None:
    """Nothing is drawn in the default black."""
    style = parsed(gpu_server()).findtext(f"{SVG}style") or ""
    for build in ALL.values():
        for element in parsed(build()).iter():
            if element.tag in (f"{SVG}rect", f"{SVG}path"):
                assert any(re.search(rf"\.{name}\b", style) for name in element.attrib["class"].split())


def test_names_cannot_break_the_document() -> None:
    """Markup in a name is text, and characters that XML forbids are replaced."""
    machine = small_vm()._replace(hostname="<b>&\"'\x01</b>")
    assert any("<b>&\"'\N{REPLACEMENT CHARACTER}</b>" in text for text in texts_in(machine))
    assert escape_xml('<a b="c">&\x00') == "&lt;a b=&quot;c&quot;&gt;&amp;\N{REPLACEMENT CHARACTER}"


def test_the_same_machine_gives_the_same_picture() -> None:
    """The pictures are equal byte for byte, so a committed picture changes only with its machine."""
    assert render_svg(gpu_server()) == render_svg(gpu_server())


def test_texts_are_shortened_by_their_width() -> None:
    """A shortened text fits and ends with an ellipsis; a text that fits is unchanged."""
    assert shortened("mlx5_0", 100, 12) == "mlx5_0"
    short = shortened("a very long name of a network adapter", 100, 12)
    assert short.endswith("…")
    assert text_width(short, 12) <= 100
