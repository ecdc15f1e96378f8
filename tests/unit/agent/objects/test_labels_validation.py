"""Which labels may be set, and how the others are treated."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.machines import gpu_server
from zonewise.machine.model.machine import Machine
from zonewise.nfd.types import LocalFeatures, LocalLabel
from zonewise.objects.features import node_features
from zonewise.objects.labels import Labels, build_labels, is_allowed_label, machine_to_labels, validate_labels

NAME = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("zonewise.dev/zones", True),
        ("nvidia.com/gpu.count", True),
        ("feature.node.kubernetes.io/cpu-cpuid.AVX", True),
        ("vendor.feature.node.kubernetes.io/x", True),
        ("profile.node.kubernetes.io/x", True),
        ("sub.profile.node.kubernetes.io/x", True),
        ("example.com/A_b-c.d", True),
        ("notkubernetes.io/x", True),
        ("kubernetes.io/hostname", False),
        ("node.kubernetes.io/instance-type", False),
        ("topology.kubernetes.io/zone", False),
        ("unprefixed", False),
        ("/x", False),
        ("a/b/c", False),
        ("A.com/x", False),
        ("a..b/x", False),
        (f"{'a' * 254}/x", False),
        (f"a/{'x' * 63}", True),
        (f"a/{'x' * 64}", False),
        ("a/-x", False),
        ("a/", False),
        ("", False),
    ],
)
def test_names(name: str, allowed: bool) -> None:
    """The rules are those of NFD's master: a qualified name with a prefix, outside Kubernetes' own namespace."""
    assert is_allowed_label(name) == allowed
    labels = validate_labels({name: "x"})
    assert (name in labels.values) == allowed
    assert bool(labels.problems) != allowed


def test_values_are_cleaned() -> None:
    """A value that Kubernetes would reject is sanitized and reported."""
    result = validate_labels({"zonewise.dev/a": "one two/three", "zonewise.dev/b": "", "zonewise.dev/c": "(!)"})
    assert result.values == {"zonewise.dev/a": "one_two_three", "zonewise.dev/b": ""}
    assert [problem.split()[1] for problem in result.problems] == ["zonewise.dev/a:", "zonewise.dev/c"]


def test_labels_of_nfd_with_invalid_values_are_omitted() -> None:
    """NFD drops a label with an invalid value; a selector for a sanitized value would match only here."""
    result = validate_labels({"feature.node.kubernetes.io/system-os_release.VERSION_ID": "12 (bookworm)"})
    assert result.values == {}
    assert len(result.problems) == 1


@given(st.dictionaries(st.text(max_size=80) | st.from_regex(NAME, fullmatch=True), st.text(max_size=80), max_size=8))
def test_only_valid_labels_remain(labels: dict[str, str]) -> None:
    """For any labels, the result is valid and sorted, every loss is reported, and a second pass changes nothing."""
    result = validate_labels(labels)
    assert all(NAME.fullmatch(name) and VALUE.fullmatch(value) for name, value in result.values.items())
    assert list(result.values) == sorted(result.values)
    changed = {name for name, text in labels.items() if result.values.get(name) != text}
    assert len(result.problems) == len(changed)
    assert validate_labels(result.values) == (result.values, ())


# --- of feature files


def local_of(lines: dict[str, str]) -> Labels:
    local = LocalFeatures(lines, {name: LocalLabel(text, f"/f:{n}") for n, (name, text) in enumerate(lines.items(), 1)})
    machine = gpu_server()
    features = node_features(machine, (), local)
    assert features.attributes["local.label"] == dict(sorted(lines.items()))
    return build_labels(machine, features, local)


def test_labels_of_files_override() -> None:
    """As in NFD, the local source has the highest priority; a name without a prefix gets NFD's."""
    name = "feature.node.kubernetes.io/pci-0302_10de.present"
    plain = machine_to_labels(gpu_server())
    labels = local_of({name: "no", "rack": "r7", "example.com/a": ""}).values
    assert plain[name] == "true"
    assert labels == {**plain, name: "no", "feature.node.kubernetes.io/rack": "r7", "example.com/a": ""}
    assert list(labels) == sorted(labels)


def test_invalid_labels_of_files_are_dropped() -> None:
    """Labels outside NFD's namespaces are also dropped, not sanitized."""
    result = local_of({
        "kubernetes.io/a": "1", "a b": "2", "": "3", "example.com/v": "a b", "x/y/z": "4", "x": "5", "-": "6",
    })  # fmt: skip
    assert result.values == {**machine_to_labels(gpu_server()), "feature.node.kubernetes.io/x": "5"}
    assert result.problems == (
        "/f:1: label 'kubernetes.io/a' is left out: the namespace kubernetes.io is reserved",
        "/f:2: label 'a b' is left out: not a qualified name with a prefix",
        "/f:3: label '' is left out: not a qualified name with a prefix",
        "/f:4: label example.com/v is left out: 'a b' is not a valid label value",
        "/f:5: label 'x/y/z' is left out: not a qualified name with a prefix",
        "/f:7: label '-' is left out: not a qualified name with a prefix",
    )


def test_a_file_of_another_kind() -> None:
    """Its first ten invalid labels are described, and the others counted; labels of other files are not affected."""
    labels = {f"a b{n}": LocalLabel("1", f"/features.d/{{x:{n}") for n in range(25)}
    local = LocalFeatures({}, {**labels, "c d": LocalLabel("1", "/features.d/y:1"), "ok": LocalLabel("1", "/z:1")})
    result = build_labels(Machine(), node_features(Machine(), (), local), local)
    assert result.values == {"feature.node.kubernetes.io/ok": "1"}
    assert len(result.problems) == 12
    assert result.problems[10] == "/features.d/{x: 15 more labels are left out"
    assert result.problems[11].startswith("/features.d/y:1: label 'c d' is left out: ")


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), min_size=1))
def test_any_local_labels(lines: dict[str, str]) -> None:
    """Each line gives a label or a problem, and no label of the hardware is lost."""
    result = local_of(lines)
    assert set(machine_to_labels(gpu_server())) <= set(result.values)
    assert all(NAME.fullmatch(name) and VALUE.fullmatch(value) for name, value in result.values.items())
