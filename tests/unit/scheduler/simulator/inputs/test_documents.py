"""YAML and JSON files as plain values."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from zonewise_scheduler.simulator.inputs.documents import read_documents
from zonewise_scheduler.simulator.inputs.source_files import InputError

if TYPE_CHECKING:
    from pathlib import Path


def read(folder: Path, name: str, content: str) -> list[dict[str, object]]:
    file = folder / name
    file.write_text(content)
    return [entry.content for entry in read_documents(str(file))]


def test_all_documents_of_a_file_are_read_except_empty_ones(tmp_path: Path) -> None:
    assert read(tmp_path, "a.yaml", "a: 1\n---\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]


def test_objects_of_a_list_are_separate_objects(tmp_path: Path) -> None:
    """`kubectl get -o json` prints such lists."""
    assert read(tmp_path, "a.json", '{"kind": "List", "items": [{"a": 1}, {"b": 2}]}') == [{"a": 1}, {"b": 2}]
    assert read(tmp_path, "b.json", '[{"a": 1}]') == [{"a": 1}]


def test_json_is_recognized_by_its_beginning_whatever_the_file_name(tmp_path: Path) -> None:
    """Tabs are white space in JSON, but not in YAML."""
    assert read(tmp_path, "a.yaml", '\n{\t"a": 1e3}') == [{"a": 1000}]


def test_yaml_is_read_as_values_that_json_can_represent(tmp_path: Path) -> None:
    """Times remain strings, as in sigs.k8s.io/yaml, and keys become strings."""
    assert read(tmp_path, "a.yaml", "at: 2026-01-02T03:04:05Z\n1: b\n2.5: c\n") == [
        {"at": "2026-01-02T03:04:05Z", "1": "b", "2.5": "c"}
    ]


def test_a_file_that_begins_with_a_brace_may_be_yaml(tmp_path: Path) -> None:
    assert read(tmp_path, "a.yaml", "{a: 1, b: [2]}\n---\n{a: 3}\n") == [{"a": 1, "b": [2]}, {"a": 3}]


def test_compressed_files_are_decompressed(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml.gz"
    file.write_bytes(gzip.compress(b"a: 1"))
    assert [entry.content for entry in read_documents(str(file))] == [{"a": 1}]


def test_a_directory_without_such_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a: 1")
    with pytest.raises(InputError, match=r"it contains no file that ends with \.yaml, \.yml, \.json"):
        read_documents(str(tmp_path))


def test_a_directory_is_read_as_its_files_by_name(tmp_path: Path) -> None:
    for name, content in (("b.yml", "b: 1"), ("a.json", '{"a": 1}'), ("c.yaml", "c: 1"), ("notes.txt", "- [")):
        (tmp_path / name).write_text(content)
    assert [(entry.where, entry.content) for entry in read_documents(str(tmp_path))] == [
        (str(tmp_path / "a.json"), {"a": 1}),
        (str(tmp_path / "b.yml"), {"b": 1}),
        (str(tmp_path / "c.yaml"), {"c": 1}),
    ]


@pytest.mark.parametrize(
    "content",
    ["a: [1", "{", '{"a": ', "\x00", "a: !!python/object:os.system x", "{? [a]: b}", "x: " + "[" * 5000, "[" * 5000,
     "[{" * 100_000, "- " * 100_000, "0b_: 1", "a\n---\n", "? {a: b}\n: c", 'a: !!int ""', "a: !!bool x",
     "a: !!timestamp x"],
)  # fmt: skip
def test_content_that_is_neither_is_an_error_that_names_the_file(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError, match=r"a\.yaml: "):
        read(tmp_path, "a.yaml", content)


def test_bytes_that_are_not_text_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: \xff\xfe")
    with pytest.raises(InputError, match="neither YAML nor JSON"):
        read_documents(str(file))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.yaml: cannot be read: No such file"):
        read_documents(str(tmp_path / "no.yaml"))


def test_aliases_may_repeat_values_but_not_too_many(tmp_path: Path) -> None:
    """A message that shows such a value would never end."""
    assert read(tmp_path, "few.yaml", "a: &a [1]\nb: [*a, *a]\n") == [{"a": [1], "b": [[1], [1]]}]
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10))]
    with pytest.raises(InputError, match=r"many.yaml: .* with its aliases, it has more than 10000000 values"):
        read(tmp_path, "many.yaml", "\n".join(lines))
