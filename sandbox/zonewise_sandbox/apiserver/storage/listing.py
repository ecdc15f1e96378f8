"""Lists: filtered by selectors, in pages of a single version, which must be known to the server."""

from __future__ import annotations

import base64
import binascii
import itertools
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.apiserver.status_errors import (
    bad_request,
    expired,
    forbidden_field,
    invalid_options,
    too_large_version,
    unsupported,
)
from zonewise_sandbox.apiserver.storage.selectors import matcher, parse_fields, parse_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind
    from zonewise_sandbox.apiserver.storage.store import Record, Store

MAX_SNAPSHOTS = 64
"""Maximum number of unfinished lists in memory; the oldest is dropped first, as etcd's compaction drops old
versions."""
_MATCHES = ("Exact", "NotOlderThan")


class ListPage(NamedTuple):
    """A list or a part of one."""

    records: list[Record]
    version: int
    next: str = ""
    """Token for the next page; "" at the end."""
    remaining: int | None = None
    """Number of objects after this page; None on the last page, or if selectors make the number unknown."""


class _Snapshot(NamedTuple):
    records: list[Record]
    version: int
    counted: bool


class Lister:
    """Lists objects, and remembers lists that were not read to the end."""

    def __init__(self, store: Store) -> None:
        """Create a lister for the objects of a store."""
        self._store = store
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._snapshots: OrderedDict[int, _Snapshot] = OrderedDict()

    def list(self, kind: Kind, namespace: str, query: Mapping[str, str]) -> ListPage:
        """Return a page. Raises StatusError: 400 for invalid selectors and tokens, 410, 504."""
        limit = _number(query.get("limit", ""), "limit")
        test = selector_predicate(kind, query)
        if query.get("continue"):
            return self._continued(query["continue"], limit)
        records, version = self._store.list(kind.resource, namespace)
        check_version(query, version)
        if test is not None:
            records = [record for record in records if test(record.object)]
        return self._page(_Snapshot(records, version, counted=test is None), 0, limit)

    def forget(self) -> None:
        """Drop all unfinished lists: their remaining pages expire."""
        with self._lock:
            self._snapshots.clear()

    def _continued(self, token: str, limit: int) -> ListPage:
        number, start = _decoded(token)
        with self._lock:
            snapshot = self._snapshots.get(number)
        if snapshot is None:
            message = "The provided continue parameter is too old to display a consistent list result."
            raise expired(f"{message} You can start a new list without the continue parameter.")
        return self._page(snapshot, start, limit, number)

    def _page(self, snapshot: _Snapshot, start: int, limit: int, number: int = 0) -> ListPage:
        end = start + limit if limit else len(snapshot.records)
        records = snapshot.records[start:end]
        remaining = len(snapshot.records) - end
        if remaining <= 0:
            return ListPage(records, snapshot.version)
        if not number:
            number = self._remember(snapshot)
        return ListPage(records, snapshot.version, _encoded(number, end), remaining if snapshot.counted else None)

    def _remember(self, snapshot: _Snapshot) -> int:
        with self._lock:
            number = next(self._numbers)
            self._snapshots[number] = snapshot
            if len(self._snapshots) > MAX_SNAPSHOTS:
                self._snapshots.popitem(last=False)
            return number


def selector_predicate(kind: Kind, query: Mapping[str, str]) -> Callable[[Object], bool] | None:
    """Return the predicate for the selectors in a query; None if everything matches. Raises StatusError (400)."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not labels and not fields:
        return None
    return matcher(parse_labels(labels), parse_fields(fields, kind))


def check_version(query: Mapping[str, str], current: int) -> None:
    """Raise StatusError if a list cannot have this version: only the current one is available."""
    requested, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if match and match not in _MATCHES:
        raise invalid_options("ListOptions", unsupported("resourceVersionMatch", match, _MATCHES))
    if match and not requested:
        message = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise invalid_options("ListOptions", forbidden_field("resourceVersionMatch", message))
    version = parse_version(requested)
    if version is None:
        return
    if version > current:
        raise too_large_version(version, current)
    if match == "Exact" and version != current:
        raise expired("The resourceVersion for the provided list is too old.")


def parse_version(text: str) -> int | None:
    """Return the resourceVersion in a query, or None. Raises StatusError (400)."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        detail = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {detail}')
    return int(text)


def _number(text: str, what: str) -> int:
    if not text:
        return 0
    try:
        return max(int(text), 0)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax ({what})') from None


def _encoded(number: int, start: int) -> str:
    return base64.urlsafe_b64encode(f"{number}:{start}".encode()).decode()


def _decoded(token: str) -> tuple[int, int]:
    try:
        number, start = base64.urlsafe_b64decode(token).split(b":")
        return int(number), int(start)
    except (ValueError, binascii.Error):
        raise bad_request(f"invalid continue token: continue key is not valid: {token!r}") from None
