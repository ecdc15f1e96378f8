"""Tables that change from version to version, and the changes since any of the last versions.

The name of a version is the name of the run followed by a number. So a client of an earlier run gets all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import Json

MAX_CHANGED_ROWS = 3000
"""Maximum number of changed rows in one response. A client that lacks more gets all rows instead, compressed."""
_MAX_GONE = 20_000
"""Maximum number of remembered removals per table."""


class _Table:
    def __init__(self) -> None:
        self.rows: dict[str, object] = {}
        self._changed_in: dict[str, int] = {}
        self._gone_in: dict[str, int] = {}
        self._complete_from = 0
        """First version since which all removals are remembered."""

    def replace(self, rows: Mapping[str, object], version: int) -> bool:
        """Replace all rows, and return whether any row differs."""
        gone = self.rows.keys() - rows.keys()
        changed = {key: row for key, row in rows.items() if self.rows.get(key) != row}
        return self.change({**changed, **dict.fromkeys(gone)}, version)

    def change(self, rows: Mapping[str, object | None], version: int) -> bool:
        """Set some rows and keep the others; None: remove the row. Return whether any row differs."""
        differs = False
        for key, row in rows.items():
            if self.rows.get(key) == row:
                continue
            differs = True
            if row is None:
                del self.rows[key], self._changed_in[key]
                self._gone_in[key] = version
            else:
                self.rows[key] = row
                self._changed_in[key] = version
                self._gone_in.pop(key, None)
        while len(self._gone_in) > _MAX_GONE:
            oldest = next(iter(self._gone_in))
            self._complete_from = self._gone_in.pop(oldest)
        return differs

    def changes(self, since: int) -> tuple[dict[str, object], list[str]] | None:
        """Return the changed rows and the keys of the removed rows; None: they are no longer known."""
        if since < self._complete_from:
            return None
        changed = {key: self.rows[key] for key, version in self._changed_in.items() if version > since}
        return changed, [key for key, version in self._gone_in.items() if version > since]


class VersionedTables:
    """Rows by table and key. A row is a JSON value that is replaced as a whole."""

    def __init__(self, run: str, names: tuple[str, ...]) -> None:
        """Start at version 0 without rows; `run`: must differ from that of each earlier run."""
        self._run = run
        self._version = 0
        self._tables = {name: _Table() for name in names}
        self._encoded: dict[int, bytes | None] = {}

    @property
    def version(self) -> str:
        """Return the name of the current version."""
        return f"{self._run}-{self._version}"

    def update(self, replaced: Mapping[str, Mapping[str, Any]], changed: Mapping[str, Mapping[str, Any]]) -> bool:
        """Set rows: `replaced` replaces all rows of a table, `changed` sets single rows; None: remove the row.

        Return whether this makes a new version.
        """
        version = self._version + 1
        differs = [self._tables[name].replace(rows, version) for name, rows in replaced.items()]
        differs += [self._tables[name].change(rows, version) for name, rows in changed.items()]
        if any(differs):
            self._version = version
            self._encoded = {}
        return any(differs)

    def snapshot(self, head: Json) -> bytes:
        """Return all rows as JSON, after the fields of `head`."""
        tables: Json = {name: {"set": table.rows, "gone": []} for name, table in self._tables.items()}
        return msgspec.json.encode({**head, "version": self.version, "tables": tables})

    def changes(self, since: str) -> bytes | None:
        """Return the changes since a version as JSON; b"": nothing has changed; None: the client needs all rows."""
        run, _, text = since.rpartition("-")
        if run != self._run or not (text.isascii() and text.isdecimal() and len(text) < 12):
            return None
        number = int(text)
        if number >= self._version:
            return b"" if number == self._version else None
        if number not in self._encoded:
            self._encoded[number] = self._encode_changes(number)
        return self._encoded[number]

    def _encode_changes(self, since: int) -> bytes | None:
        body: Json = {}
        total = 0
        for name, table in self._tables.items():
            changes = table.changes(since)
            if changes is None:
                return None
            total += len(changes[0]) + len(changes[1])
            if any(changes):
                body[name] = {"set": changes[0], "gone": changes[1]}
        if total > MAX_CHANGED_ROWS:
            return None
        return msgspec.json.encode({"version": self.version, "tables": body})
