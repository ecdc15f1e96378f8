"""Versioned tables: applying the changes gives the same rows as the whole table."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.controller.readapi import versioned_tables
from zonewise_scheduler.controller.readapi.versioned_tables import VersionedTables

Json = dict[str, Any]
ROWS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3))
CHANGES = st.dictionaries(st.sampled_from("abcdef"), st.one_of(st.none(), st.integers(0, 3)))


def rows_of(tables: VersionedTables) -> Json:
    body = json.loads(tables.snapshot({"at": 1}))
    assert (body["at"], body["version"]) == (1, tables.version)
    return {name: table["set"] for name, table in body["tables"].items()}


def apply(rows: Json, changes: bytes) -> None:
    for name, table in json.loads(changes)["tables"].items():
        for key in table["gone"]:
            rows[name].pop(key, None)
        rows[name] |= table["set"]


@given(st.lists(st.tuples(ROWS, CHANGES), max_size=8), st.data())
def test_changes_since_any_version_give_the_current_rows(updates: list[tuple[Json, Json]], data: st.DataObject) -> None:
    tables = VersionedTables("run", ("x", "y"))
    versions = {tables.version: rows_of(tables)}
    for replaced, changed in updates:
        before = tables.version
        assert tables.update({"x": replaced}, {"y": changed}) == (tables.version != before)
        versions[tables.version] = rows_of(tables)
    since = data.draw(st.sampled_from(sorted(versions)))
    changes = tables.changes(since)
    assert changes is not None
    assert (changes == b"") == (since == tables.version)
    rows = versions[since]
    if changes:
        apply(rows, changes)
    assert rows == rows_of(tables)


def test_a_client_with_a_version_of_another_run_or_the_future_needs_all_rows() -> None:
    tables = VersionedTables("run-2", ("x",))
    tables.update({"x": {"a": 1}}, {})
    assert tables.version == "run-2-1"
    assert [tables.changes(version) for version in ("", "run-1", "run-2-", "run-2-x", "run-2-7", "run-2-²")] == [
        None
    ] * 6


def test_a_client_needs_all_rows_once_removals_are_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(versioned_tables, "_MAX_GONE", 2)
    tables = VersionedTables("r", ("x",))
    tables.update({"x": dict.fromkeys("abcd", 1)}, {})
    for key in "abc":
        tables.update({}, {"x": {key: None}})
    assert tables.changes("r-1") is None
    assert json.loads(tables.changes("r-2") or b"")["tables"]["x"]["gone"] == ["b", "c"]


def test_a_client_needs_all_rows_after_many_changes(monkeypatch: Any) -> None:
    monkeypatch.setattr(versioned_tables, "MAX_CHANGED_ROWS", 3)
    tables = VersionedTables("r", ("x",))
    tables.update({"x": dict.fromkeys("abcd", 1)}, {})
    assert tables.changes("r-0") is None
    tables.update({}, {"x": {"a": 2}})
    assert tables.changes("r-1") is not None
