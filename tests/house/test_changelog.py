"""The changelog survives merges: entries are neither split nor repeated."""

from __future__ import annotations

from support.snapshots import PROJECT

LINES = (PROJECT / "CHANGELOG.md").read_text().splitlines()


def test_each_entry_is_one_line() -> None:
    """Merges insert entries between any two lines."""
    assert [line for line in LINES if line.startswith(" ")] == []


def test_no_entry_is_repeated() -> None:
    entries = [line for line in LINES if line.startswith("- ")]
    assert sorted(entries) == sorted(set(entries))
