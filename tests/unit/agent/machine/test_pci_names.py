"""pci.ids: names of a machine's devices, from a list with any content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.machines import gpu_server
from zonewise.machine.files import MemoryFiles
from zonewise.machine.pci_names import PCI_IDS, pci_names, read_pci_ids, with_pci_names

LIST = """# a comment
1022  Advanced Micro Devices, Inc. [AMD]
\t1634  Renoir GPP Bridge
\t\t17aa 5095  a subsystem
# another comment
10DE  NVIDIA Corporation
\t2330  GH100 [H100 SXM5 80GB]
\t\t10de 16c1  a subsystem
\t2331
C 03  Display controller
\t00  VGA compatible controller
"""


def test_names() -> None:
    """Vendors and devices are found in upper and lower case; subsystems and classes do not name a device."""
    devices = [("10de", "2330"), ("1022", "1634"), ("10de", "2331"), ("1022", "2330"), ("17aa", "5095"), ("10de", "00")]
    assert pci_names(LIST, devices) == {
        ("10de", "2330"): "GH100 [H100 SXM5 80GB]",
        ("1022", "1634"): "Renoir GPP Bridge",
    }


@given(st.lists(st.sampled_from(["10de", "10DE", "1022", "2330", "\t", "\n", "#", " ", "é"])).map("".join) | st.text())
def test_any_list(text: str) -> None:
    """A name is on the first line of its device that has one, below a line of its vendor."""
    devices = [("10de", "2330"), ("1022", "2330"), ("2330", "10de")]
    names: dict[tuple[str, str], str] = {}
    vendor = ""
    for line in text.split("\n"):
        if line.startswith("\t") and (vendor, line[1:5].lower()) in devices and line[5:].strip():
            names.setdefault((vendor, line[1:5].lower()), line[5:].strip())
        elif line and line[0] not in "\t#":
            vendor = line[:4].lower()
    assert pci_names(text, devices) == names


@pytest.mark.parametrize("path", PCI_IDS)
def test_the_paths_of_the_list(path: str) -> None:
    """The list is found at any of the paths; without a list, there are no names."""
    assert read_pci_ids(MemoryFiles([(path, LIST.encode() + b"\xff")])) == LIST + "\ufffd"
    assert read_pci_ids(MemoryFiles([])) == ""


def test_functions_have_names() -> None:
    """Listed functions get names; without a list, the machine is the same object."""
    machine = gpu_server()
    first = machine.pci[0]
    text = f"{first.vendor}  vendor\n\t{first.device}  a name\n"
    named = with_pci_names(machine, text)
    assert named.pci[0].name == "a name"
    alike = {(function.vendor, function.device) for function in named.pci if function.name is not None}
    assert alike == {(first.vendor, first.device)}
    assert with_pci_names(machine, "") is machine
