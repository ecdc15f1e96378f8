"""The kubelet's state files: real and damaged ones, every format that kubelets have written, and cheap re-reads."""

from __future__ import annotations

import json
import os
import time
import zlib
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.snapshots import PROJECT
from support.waiting import eventually
from zonewise.kubelet.checkpoint import UNKNOWN_POD, WHOLE_POD, ParsedCheckpoint
from zonewise.kubelet.cpu_manager_state import parse_cpu_manager_state
from zonewise.kubelet.device_checkpoint import parse_device_checkpoint
from zonewise.kubelet.dra_manager_state import parse_dra_manager_state
from zonewise.kubelet.memory_manager_state import parse_memory_manager_state
from zonewise.kubelet.state import StateReader
from zonewise.kubelet.types import (
    ClaimedDevice,
    ClaimInfoState,
    CpuManagerState,
    DeviceCheckpoint,
    MemoryBlock,
    MemoryManagerState,
    MemoryTable,
    NumaNodeState,
    PodDevicesEntry,
    StateFiles,
)
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from pathlib import Path

TRACES = PROJECT.parent / "shared" / "cases" / "kubelet_traces.json"
PARSERS = (parse_cpu_manager_state, parse_memory_manager_state, parse_device_checkpoint, parse_dra_manager_state)
POLICY: dict[str, Any] = {"policyName": "static", "defaultCpuSet": "0,4-7"}
TABLE: dict[str, Any] = {"total": 10, "systemReserved": 1, "allocatable": 9, "reserved": 4, "free": 5}
NODE: dict[str, Any] = {"numberOfAssignments": 1, "memoryMap": {"memory": TABLE}, "cells": [1, 0]}
BLOCK: dict[str, Any] = {"numaAffinity": [1, 0], "type": "memory", "size": 4}
DEVICE: dict[str, Any] = {
    "PodUID": "u", "ContainerName": "c", "ResourceName": "r.io/d", "DeviceIDs": {"0": ["b", "a"], "-1": ["z"]},
}  # fmt: skip
CLAIM: dict[str, Any] = {
    "ClaimUID": "x", "ClaimName": "gpu", "Namespace": "lab", "PodUIDs": {"p2": {}, "p1": {}},
    "DriverState": {"d.io": {"Devices": [
        {"PoolName": "node", "DeviceName": "gpu1", "ShareID": None, "RequestNames": ["r"], "CDIDeviceIDs": None},
        {"PoolName": "node", "DeviceName": "gpu0", "ShareID": "s", "RequestNames": ["r"], "CDIDeviceIDs": ["c"]},
    ]}},
}  # fmt: skip


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def wrapped(inner: Any, checksum: int | None = None) -> bytes:
    """Return dra_manager_state as kubelets have written it since 1.32."""
    data = inner if isinstance(inner, str) else json.dumps(inner)
    return encoded({"Data": data, "Checksum": zlib.crc32(data.encode()) if checksum is None else checksum})


# --- cpu_manager_state


def test_cpus_by_pod_and_container() -> None:
    """The entries have format v2. If all CPUs are exclusive, the shared pool is empty."""
    content = encoded({"policyName": "static", "defaultCpuSet": "", "entries": {"u": {"c": "1-2,17", "d": "3"}}})
    assert parse_cpu_manager_state(content, "f") == ParsedCheckpoint(
        CpuManagerState("static", EMPTY, {"u": {"c": CpuSet([1, 2, 17]), "d": CpuSet([3])}})
    )


def test_cpus_by_container_id() -> None:
    """Format v1 has no pods."""
    content = encoded({**POLICY, "entries": {"cri-1": "1", "cri-2": "2-3"}, "checksum": 7})
    assert parse_cpu_manager_state(content, "f").value == CpuManagerState(
        "static", CpuSet([0, 4, 5, 6, 7]), {UNKNOWN_POD: {"cri-1": CpuSet([1]), "cri-2": CpuSet([2, 3])}}
    )


def test_pod_level_cpus_replace_those_of_containers() -> None:
    """In format v3, the CPUs of the containers are a part of the pod's."""
    entries = {"u": {"c": "1"}, "other": {"c": "3"}}
    content = encoded({**POLICY, "entries": entries, "podEntries": {"u": {"cpuSet": "1-2"}, "empty": {}}})
    parsed = parse_cpu_manager_state(content, "f")
    assert parsed.value is not None
    assert parsed.value.entries == {
        "u": {WHOLE_POD: CpuSet([1, 2])},
        "other": {"c": CpuSet([3])},
        "empty": {WHOLE_POD: EMPTY},
    }
    assert parsed.problems == ()


def test_pod_level_entries_of_1_37() -> None:
    """In the formats CPU v4 and memory v3, a text contains them; the other fields are also outside of it."""
    pods: dict[str, Any] = {"u": {"cpuSet": "1-2", "memoryBlocks": [BLOCK]}}
    shared: dict[str, Any] = {
        **POLICY,
        "machineState": {},
        "checksum": 1,
        "dataChecksum": 2,
        "data": json.dumps({"podEntries": pods}),
    }
    cpus = parse_cpu_manager_state(encoded({**shared, "entries": {"u": {"c": "1", "d": "2"}}}), "f")
    assert cpus.value is not None
    assert (cpus.value.entries, cpus.problems) == ({"u": {WHOLE_POD: CpuSet([1, 2])}}, ())
    memory = parse_memory_manager_state(encoded({**shared, "entries": {"u": {"c": [BLOCK], "d": [BLOCK]}}}), "f")
    assert memory.value is not None
    assert (memory.value.entries, memory.problems) == ({"u": {WHOLE_POD: (MemoryBlock("memory", 4, (0, 1)),)}}, ())


@pytest.mark.parametrize("data", [1, "", "{", "[]"])
def test_damaged_data_of_1_37(data: object) -> None:
    """The entries of containers are read, and the problem is reported."""
    parsed = parse_cpu_manager_state(encoded({**POLICY, "entries": {"u": {"c": "1"}}, "data": data}), "f")
    assert parsed.value is not None
    assert parsed.value.entries == {"u": {"c": CpuSet([1])}}
    assert len(parsed.problems) == 1


# --- memory_manager_state


def test_memory_by_zone_and_container() -> None:
    content = encoded({"policyName": "Static", "machineState": {"1": NODE}, "entries": {"u": {"c": [BLOCK]}}})
    assert parse_memory_manager_state(content, "f") == ParsedCheckpoint(
        MemoryManagerState(
            "Static",
            {1: NumaNodeState(1, (0, 1), {"memory": MemoryTable(10, 1, 9, 4, 5)})},
            {"u": {"c": (MemoryBlock("memory", 4, (0, 1)),)}},
        )
    )


def test_pod_level_memory_counts_once() -> None:
    content = encoded({
        "policyName": "Static", "machineState": {}, "entries": {"u": {"c": [BLOCK], "d": [BLOCK]}},
        "podEntries": {"u": {"memoryBlocks": [BLOCK]}, "empty": {}},
    })  # fmt: skip
    parsed = parse_memory_manager_state(content, "f")
    assert parsed.value is not None
    assert parsed.value.entries == {"u": {WHOLE_POD: (MemoryBlock("memory", 4, (0, 1)),)}, "empty": {WHOLE_POD: ()}}


# --- kubelet_internal_checkpoint


def test_devices_by_zone() -> None:
    content = encoded({
        "Data": {"PodDeviceEntries": [{**DEVICE, "AllocResp": "AA=="}], "RegisteredDevices": {"r.io/d": ["b", "a"]}},
        "Checksum": 1,
    })  # fmt: skip
    assert parse_device_checkpoint(content, "f") == ParsedCheckpoint(
        DeviceCheckpoint((PodDevicesEntry("u", "c", "r.io/d", {0: ("a", "b"), -1: ("z",)}),), {"r.io/d": ("a", "b")})
    )


def test_devices_as_a_plain_list() -> None:
    """Before 1.20, the checkpoint has no zones. Go writes null for an unset field."""
    entry = {**DEVICE, "DeviceIDs": ["b", "a"]}
    content = encoded({"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": None}, "Checksum": 1})
    assert parse_device_checkpoint(content, "f") == ParsedCheckpoint(
        DeviceCheckpoint((PodDevicesEntry("u", "c", "r.io/d", {-1: ("a", "b")}),), {})
    )


# --- dra_manager_state


def parse_claims(content: bytes) -> tuple[ClaimInfoState, ...] | None:
    parsed = parse_dra_manager_state(content, "f")
    assert parsed.problems == ()
    return parsed.value


def test_claims() -> None:
    """Since 1.32, the claims are inside a string; before, they were in the file itself."""
    expected = (
        ClaimInfoState("lab", "gpu", ("p1", "p2"), (
            ClaimedDevice("d.io", "node", "gpu0", "lab/gpu", "s"),
            ClaimedDevice("d.io", "node", "gpu1", "lab/gpu", None),
        )),
    )  # fmt: skip
    inner = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1", "ClaimInfoStateList": [CLAIM]}
    assert parse_claims(wrapped(inner)) == expected
    assert parse_claims(encoded({"version": "v1", "entries": [CLAIM], "checksum": 1})) == expected


def test_null_means_no_claims() -> None:
    """A kubelet without claims writes null; this means none, not unknown."""
    assert parse_claims(wrapped({"kind": "DRACheckpoint", "ClaimInfoStateList": None})) == ()


def test_claims_with_a_wrong_checksum_are_rejected() -> None:
    parsed = parse_dra_manager_state(wrapped({"ClaimInfoStateList": [CLAIM]}, checksum=1), "f")
    assert parsed == ParsedCheckpoint(None, ("f: Checksum: 1 is not that of Data",))


# --- damage


@pytest.mark.parametrize(
    ("parse", "content", "problem"),
    [
        (parse_cpu_manager_state, {**POLICY, "entries": {"u": {"c": "x", "d": "3"}}},
         "f: entries.u.c: 'x' is not a CPU list"),
        (parse_cpu_manager_state, {**POLICY, "entries": {"u": 3, "v": {"d": "3"}}},
         "f: entries.u: 3 is not a JSON object"),
        (parse_memory_manager_state, {"policyName": "Static", "machineState": {"x": NODE, "1": NODE}},
         "f: machineState: 'x' is not a NUMA node"),
        (parse_memory_manager_state, {"policyName": "Static", "entries": {"u": {"c": [{**BLOCK, "size": -1}, BLOCK]}}},
         "f: entries.u.c[0].size: -1 is not a whole number"),
        (parse_memory_manager_state, {"policyName": "Static", "machineState": {"1": {**NODE, "memoryMap": {
            "memory": {**TABLE, "free": None}, "hugepages-2Mi": TABLE}}}},
         "f: machineState.1.memoryMap.memory.free: None is not a whole number"),
        (parse_device_checkpoint, {"Data": {"PodDeviceEntries": [{**DEVICE, "PodUID": ""}, DEVICE]}},
         "f: Data.PodDeviceEntries[0].PodUID: '' is not a name"),
        (parse_device_checkpoint, {"Data": {"PodDeviceEntries": [{**DEVICE, "DeviceIDs": {"-2": ["a"], "0": ["b"]}}]}},
         "f: Data.PodDeviceEntries[0].DeviceIDs: '-2' is not a NUMA node"),
        (parse_dra_manager_state, {"entries": [{**CLAIM, "ClaimName": None}, CLAIM], "checksum": 1},
         "f: entries[0].ClaimName: None is not a name"),
    ],
)  # fmt: skip
def test_a_bad_entry_costs_only_itself(parse: Any, content: dict[str, Any], problem: str) -> None:
    """The other entries are read, and the problem names the file, the field and the value."""
    value, problems = parse(encoded(content), "f")
    assert problems == (problem,)
    assert any(word in repr(value) for word in ("CpuSet('3')", "MemoryBlock", "MemoryTable", "PodDevicesEntry", "gpu0"))


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, b"{}", b'{"a": 1}'])
def test_a_file_that_is_not_a_checkpoint_is_unknown(parse: Any, content: bytes) -> None:
    """The value is None, and each problem is one line."""
    value, problems = parse(content, "f")
    assert value is None
    assert problems or content == b"{}"
    assert all(problem.startswith("f: ") and len(problem) < 200 for problem in problems)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def keys(value: Any) -> list[Any]:
    """Return the keys or indexes of a value whose items can be replaced."""
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value))
    return list(range(len(cast("list[Any]", value)))) if isinstance(value, list) else []


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """Return a valid document in which one value is replaced by an arbitrary one."""
    entries: list[Any] = [{"u": {"c": "3"}}, {"u": {"c": [BLOCK]}}, [CLAIM]]
    good: dict[str, Any] = {
        **POLICY, "entries": draw(st.sampled_from(entries)), "checksum": 1,
        "machineState": {"0": NODE}, "podEntries": {"u": {"cpuSet": "1"}},
        **draw(st.sampled_from([{}, {"data": '{"podEntries": {"u": {"cpuSet": "1"}}}'}])),
        "Data": {"PodDeviceEntries": [DEVICE], "RegisteredDevices": {"r": ["a"]}}, "ClaimInfoStateList": [CLAIM],
    }  # fmt: skip
    document: Any = json.loads(json.dumps(good))
    node: Any = document
    while True:
        key = draw(st.sampled_from(keys(node)))
        if not keys(node[key]) or draw(st.booleans()):
            node[key] = draw(JSON)
            return document
        node = node[key]


@given(damaged())
@example({**POLICY, "entries": {"\n": False}, "podEntries": {"u\r\n": {"cpuSet": 1}}})
def test_damage_never_raises(document: Any) -> None:
    """Whatever a field contains, each parser returns a value or None, and one-line problems."""
    for parse in PARSERS:
        for content in (encoded(document), wrapped(document)):
            assert all("\n" not in problem for problem in parse(content, "f").problems)


# --- the files together


def write(directory: Path, name: str, content: bytes) -> Path:
    """Write a file like the kubelet, by a temporary file and a rename; its time is ten seconds ago."""
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    temporary = path.parent / ".tmp1"
    temporary.write_bytes(content)
    stamp = time.time_ns() - 10**10
    os.utime(temporary, ns=(stamp, stamp))
    temporary.rename(path)
    return path


def test_files_that_are_absent_are_no_problem(tmp_path: Path) -> None:
    """Disabled managers write no file, and the kubelet's directory may not exist yet."""
    assert StateReader(str(tmp_path)).read() == (StateFiles(), ())
    assert StateReader(str(tmp_path / "later")).read() == (StateFiles(), ())


def test_all_files(tmp_path: Path) -> None:
    write(tmp_path, "cpu_manager_state", encoded(POLICY))
    write(tmp_path, "memory_manager_state", encoded({"policyName": "None", "machineState": {}}))
    write(tmp_path, "device-plugins/kubelet_internal_checkpoint", encoded({"Data": {"PodDeviceEntries": None}}))
    write(tmp_path, "dra_manager_state", wrapped({"ClaimInfoStateList": []}))
    assert StateReader(str(tmp_path)).read() == (
        StateFiles(
            CpuManagerState("static", CpuSet([0, 4, 5, 6, 7]), {}),
            MemoryManagerState("None", {}, {}),
            DeviceCheckpoint((), {}),
            (),
        ),
        (),
    )


def test_an_unreadable_file_is_a_problem_of_its_own(tmp_path: Path) -> None:
    """A directory in place of a file, or an empty file, is None with its own problem; the other files are read."""
    (tmp_path / "cpu_manager_state").mkdir()
    write(tmp_path, "memory_manager_state", b"")
    write(tmp_path, "dra_manager_state", wrapped({"ClaimInfoStateList": []}))
    state = StateReader(str(tmp_path)).read()
    assert state.files == StateFiles(claims=())
    assert state.problems == (
        f"{tmp_path}/cpu_manager_state: cannot be read: Is a directory",
        f"{tmp_path}/memory_manager_state: is empty",
    )


def test_a_file_that_cannot_be_opened_is_a_problem(tmp_path: Path) -> None:
    """Permission may be missing. Here, the file is a link to itself, which even root cannot open."""
    (tmp_path / "cpu_manager_state").symlink_to("cpu_manager_state")
    problem = f"{tmp_path}/cpu_manager_state: cannot be read: Too many levels of symbolic links"
    assert StateReader(str(tmp_path)).read() == (StateFiles(), (problem,))


def settled(path: Path) -> None:
    """Wait until the file is old enough to be recognised as unchanged."""
    eventually(lambda: time.time_ns() - path.stat().st_ctime_ns >= 60_000_000)


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    """The same object is returned, with its problems, until the file is replaced."""
    reader = StateReader(str(tmp_path))
    settled(write(tmp_path, "cpu_manager_state", encoded({**POLICY, "entries": {"u": {"c": "x"}}})))
    first = reader.read()
    again = reader.read()
    assert first.files.cpu is not None
    assert again.files.cpu is first.files.cpu
    assert again.problems == first.problems != ()
    write(tmp_path, "cpu_manager_state", encoded({**POLICY, "entries": {"u": {"c": "3"}}}))
    changed = reader.read()
    assert changed.files.cpu is not None
    assert changed.files.cpu.entries == {"u": {"c": CpuSet([3])}}
    assert changed.problems == ()
    (tmp_path / "cpu_manager_state").unlink()
    assert reader.read().files.cpu is None


def test_a_fresh_file_is_read_again(tmp_path: Path) -> None:
    """The last content is read from a file that is written twice within one clock tick, with equal length and inode."""
    reader = StateReader(str(tmp_path))
    path = write(tmp_path, "cpu_manager_state", encoded({**POLICY, "entries": {"u": {"c": "3"}}}))
    stamp = path.stat().st_mtime_ns
    reader.read()
    path.write_bytes(encoded({**POLICY, "entries": {"u": {"c": "2"}}}))
    os.utime(path, ns=(stamp, stamp))
    state = reader.read()
    assert state.files.cpu is not None
    assert state.files.cpu.entries == {"u": {"c": CpuSet([2])}}


@pytest.mark.skipif(not TRACES.exists(), reason=f"{TRACES.name} is not beside the project")
def test_the_files_of_real_kubelets() -> None:
    """They are read without a problem, and every CPU is in the shared pool or belongs to one container."""
    for trace in json.loads(TRACES.read_text()):
        cpu = parse_cpu_manager_state(encoded(trace["cpu_manager_state"]), "cpu")
        memory = parse_memory_manager_state(encoded(trace["memory_manager_state"]), "memory")
        entries: Any = {"PodDeviceEntries": trace["device_checkpoint"], "RegisteredDevices": {}}
        devices = parse_device_checkpoint(encoded({"Data": entries, "Checksum": 1}), "devices")
        assert (cpu.problems, memory.problems, devices.problems) == ((), (), ())
        assert cpu.value is not None
        assert memory.value is not None
        assert devices.value is not None
        allocated = [cpus for pod in cpu.value.entries.values() for cpus in pod.values()]
        assert sum(map(len, allocated)) + len(cpu.value.default_cpu_set) == 32
        assert CpuSet.union([cpu.value.default_cpu_set, *allocated]) == CpuSet(range(32))
        for node in memory.value.machine_state.values():
            assert all(table.allocatable == table.reserved + table.free for table in node.memory_map.values())
