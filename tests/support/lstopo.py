"""The output of lstopo as plain values: a machine according to another implementation."""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple
from xml.etree import ElementTree

from zonewise_common.k8s.cpuset import CpuSet


class Opinion(NamedTuple):
    """hwloc's view of a machine in the project's terms. Objects are CPU lists: hwloc numbers them differently."""

    packages: set[str]
    cores: set[str]
    caches: set[tuple[int, str, int, str]]
    """(level, type, bytes, CPUs)."""
    zones: dict[int, tuple[str, int]]
    """id -> (CPUs, bytes)."""
    functions: set[str]
    """PCI addresses, without bridges."""


_CACHE_TYPES = {"0": "Unified", "1": "Data", "2": "Instruction"}  # hwloc_obj_cache_type_e


def lstopo(root: str | None = None) -> Opinion:
    """Run lstopo on the live machine or on a tree."""
    environment = dict(os.environ)
    if root is not None:
        environment |= {"HWLOC_FSROOT": root, "HWLOC_THISSYSTEM": "0", "HWLOC_COMPONENTS": "linux,stop"}
    command = ["lstopo", "--of", "xml", "--whole-io", "--disallowed"]
    answer = subprocess.run(command, check=True, capture_output=True, env=environment, timeout=300)
    tree = ElementTree.fromstring(answer.stdout)  # noqa: S314 -- the answer of a tool we started
    objects = list(tree.iter("object"))

    def cpus(item: ElementTree.Element) -> str:
        return str(_cpus(item.attrib.get("cpuset", "")))

    return Opinion(
        {cpus(item) for item in objects if item.attrib["type"] == "Package"},
        {cpus(item) for item in objects if item.attrib["type"] == "Core"},
        {
            (
                int(item.attrib["depth"]),
                _CACHE_TYPES[item.attrib["cache_type"]],
                int(item.attrib["cache_size"]),
                cpus(item),
            )
            for item in objects
            if "Cache" in item.attrib["type"] and item.attrib["type"] != "MemCache"
        },
        {
            int(item.attrib["os_index"]): (cpus(item), int(item.attrib.get("local_memory", "0")))
            for item in objects
            if item.attrib["type"] == "NUMANode"
        },
        {item.attrib["pci_busid"] for item in objects if item.attrib["type"] == "PCIDev"},
    )


def _cpus(text: str) -> CpuSet:
    words = [word.removeprefix("0x") or "0" for word in text.split(",")]
    return CpuSet.from_bits(int("".join(word.rjust(8, "0") for word in words), 16))
