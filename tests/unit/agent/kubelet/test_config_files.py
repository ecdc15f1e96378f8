"""The configuration in files: merged as the kubelet merges, re-read after a change, preserved while unreadable."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.waiting import eventually
from zonewise.kubelet.config import KubeletConfigError
from zonewise.kubelet.config_files import ConfigFiles, merge, parse_document
from zonewise.kubelet.config_source import ConfigSource, open_config

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def write(path: Path, text: str, age: float = 10.0) -> str:
    """Write a configuration with a modification time of `age` seconds ago; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + text)
    os.utime(path, (time.time() - age, time.time() - age))
    return str(path)


def settle(*paths: str) -> None:
    """Wait until the files are old enough to be recognised as unchanged."""
    eventually(lambda: all(time.time_ns() - os.stat(path).st_ctime_ns >= 60_000_000 for path in paths))


# --- one document


def test_yaml_and_json_are_equal() -> None:
    """JSON may contain tabs, which YAML rejects."""
    text = HEAD + "cpuManagerPolicy: static\nreservedSystemCPUs: 0,16\nfeatureGates: {PodsAPI: true}\n"
    document = parse_document(text.encode(), "f")
    assert document["reservedSystemCPUs"] == "0,16"
    assert parse_document(json.dumps(dict(document), indent="\t").encode(), "f") == document


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "f: is empty"),
        (b"- a\n", "f: holds no fields"),
        (b"a: [", "f: neither YAML nor JSON: "),
        (b'{"a": ', "f: neither YAML nor JSON: "),
        (b"\xff", "f: neither YAML nor JSON: "),
        (b"{" * 100_000, "f: neither YAML nor JSON: "),
        (b"kind: KubeletConfiguration\n", "f: apiVersion: None, kind: 'KubeletConfiguration': must be "),
        (b"kind: KubeProxyConfiguration\napiVersion: v1\n", "f: apiVersion: 'v1', kind: 'KubeProxyConfiguration'"),
    ],
)
def test_a_file_that_is_not_a_configuration_is_named(content: bytes, message: str) -> None:
    with pytest.raises(KubeletConfigError) as caught:
        parse_document(content, "f")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


# --- merging

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def without_null(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: without_null(inner) for name, inner in value.items() if inner is not None}  # pyright: ignore[reportUnknownVariableType]


@given(DOCUMENTS.map(without_null), DOCUMENTS)
def test_merging_follows_rfc_7386(base: dict[str, Any], patch: dict[str, Any]) -> None:
    """Names in the patch take precedence, null removes, objects are merged recursively, and the rest remains."""
    merged = merge(base, patch)
    for name in set(base) | set(patch):
        value: Any = patch.get(name)
        if name not in patch:
            assert merged[name] == base[name]
        elif value is None:
            assert name not in merged
        elif isinstance(value, dict):
            inner: Any = base.get(name)
            assert merged[name] == merge(inner if isinstance(inner, dict) else {}, value)  # pyright: ignore[reportUnknownArgumentType]
        else:
            assert merged[name] == value
    assert merge(merged, patch) == merged


@given(DOCUMENTS.map(without_null), DOCUMENTS)
def test_merging_changes_neither_side(base: dict[str, Any], patch: dict[str, Any]) -> None:
    before = json.dumps([base, patch])
    merge(base, patch)
    assert json.dumps([base, patch]) == before


def test_drop_ins_are_merged_in_the_kubelets_order(tmp_path: Path) -> None:
    """Only *.conf counts, sorted by name as bytes, subdirectories included. Maps are merged and lists replaced."""
    base = write(tmp_path / "config.yaml", "topologyManagerScope: pod\nfeatureGates: {A: true, B: true}\n"
                 "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n")  # fmt: skip
    drop_ins = tmp_path / "d"
    write(drop_ins / "10-first.conf", "cpuManagerPolicy: none\nfeatureGates: {B: false}\n")
    write(drop_ins / "20-middle" / "inner.conf", "cpuManagerPolicy: static\nreservedMemory: []\n")
    write(drop_ins / "9-last.conf", "topologyManagerScope: null\nmemoryManagerPolicy: Static\n")
    write(drop_ins / "99-ignored.yaml", "cpuManagerPolicy: none\n")
    source = open_config(base, drop_ins=str(drop_ins))
    reading = source.read()
    assert reading.problem is None
    assert reading.origin == f"{base} and {drop_ins}/"
    config = reading.config
    assert config is not None
    assert (config.cpu_manager_policy, config.memory_manager_policy) == ("static", "Static")
    assert config.topology_manager_scope == "container"
    assert config.feature_gates == (("A", True), ("B", False))
    assert config.reserved_memory == ()


def test_drop_ins_of_a_mounted_config_map(tmp_path: Path) -> None:
    """Names in a mounted ConfigMap are links to files beside them.

    Like Go, the agent reads links but not linked directories.
    """
    base = write(tmp_path / "config.yaml", "")
    write(tmp_path / "d" / "..2026_11" / "10.conf", "cpuManagerPolicy: static\n")
    (tmp_path / "d" / "..data").symlink_to("..2026_11")
    (tmp_path / "d" / "10.conf").symlink_to("..data/10.conf")
    config = open_config(base, drop_ins=str(tmp_path / "d")).read().config
    assert config is not None
    assert config.cpu_manager_policy == "static"


# --- repeated reads


def source_of(path: str, drop_ins: str = "") -> ConfigSource:
    return ConfigSource(ConfigFiles(path, drop_ins))


def test_unchanged_files_are_not_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "config.yaml", "cpuManagerPolicy: static\n")
    settle(path)
    source = source_of(path)
    assert source.changed()
    first = source.read()
    assert not source.changed()
    assert source.read() is first


def test_a_changed_policy_is_noticed(tmp_path: Path) -> None:
    """The change may be in the file, in a new drop-in, or in a drop-in that is removed."""
    path = write(tmp_path / "config.yaml", "cpuManagerPolicy: static\n")
    drop_ins = tmp_path / "d"
    drop_ins.mkdir()
    source = source_of(path, str(drop_ins))
    policies: list[str] = []

    def policy() -> str:
        assert source.changed()
        config = source.read().config
        assert config is not None
        return config.topology_manager_policy

    policies.append(policy())
    write(tmp_path / "config.yaml", "topologyManagerPolicy: restricted\n")
    policies.append(policy())
    settle(path, write(drop_ins / "1.conf", "topologyManagerPolicy: best-effort\n"))
    policies.append(policy())
    assert not source.changed()
    (drop_ins / "1.conf").unlink()
    policies.append(policy())
    assert policies == ["none", "restricted", "best-effort", "restricted"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "config.yaml: cannot be read: No such file or directory"),
        ("", "config.yaml: is empty"),
        (f"{HEAD}cpuManagerPolicy: dynamic\n", "cpuManagerPolicy: 'dynamic': must be one of"),
    ],
)
def test_a_failed_read_leaves_the_configuration_in_force(tmp_path: Path, content: str | None, problem: str) -> None:
    """The failure is a problem. Before the first successful read, the policies are unknown, not the defaults."""
    path = tmp_path / "config.yaml"
    source = source_of(write(path, "cpuManagerPolicy: static\n"))
    good = source.read()
    path.unlink() if content is None else path.write_text(content)
    bad = source.read()
    assert bad.config is good.config is not None
    assert bad.problem is not None
    assert problem in bad.problem
    assert bad.problem.endswith("; the last known one is used")
    fresh = source_of(str(path)).read()
    assert fresh.config is None
    assert fresh.problem is not None
    assert fresh.problem.endswith("; the kubelet's policies are unknown")
    write(path, "cpuManagerPolicy: none\n")
    mended = source.read()
    assert mended.config is not None
    assert (mended.config.cpu_manager_policy, mended.problem) == ("none", None)


def test_one_bad_drop_in_invalidates_the_whole_configuration(tmp_path: Path) -> None:
    """No kubelet starts with it, so a merge without it would not be in force anywhere."""
    path = write(tmp_path / "config.yaml", "cpuManagerPolicy: static\n")
    write(tmp_path / "d" / "1.conf", "topologyManagerPolicy: restricted\n")
    (tmp_path / "d" / "2.conf").write_text("topologyManagerPolicy: none\n")
    reading = source_of(path, str(tmp_path / "d")).read()
    assert reading.config is None
    assert reading.problem is not None
    assert reading.problem.startswith(f"{tmp_path}/d/2.conf: apiVersion: None")
    missing = source_of(path, str(tmp_path / "none")).read().problem
    assert missing is not None
    assert missing.startswith(f"{tmp_path}/none: cannot be read: No such file")
