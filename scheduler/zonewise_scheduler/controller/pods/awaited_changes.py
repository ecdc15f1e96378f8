"""The pods that wait for a change of a node, or of other pods' anti-affinity terms."""

from __future__ import annotations


class AwaitedChanges:
    """Keeps UIDs by the change that they wait for. A pod waits for one change at a time."""

    def __init__(self) -> None:
        self._uids: dict[str, dict[str, None]] = {}
        self._awaited: dict[str, str] = {}
        """The change that each pod waits for, by UID."""

    def __len__(self) -> int:
        return len(self._awaited)

    def add(self, awaited: str, uid: str) -> None:
        """Make a pod wait for this change only."""
        self.remove(uid)
        self._awaited[uid] = awaited
        self._uids.setdefault(awaited, {})[uid] = None

    def remove(self, uid: str) -> None:
        """Forget a pod if it is waiting."""
        awaited = self._awaited.pop(uid, None)
        if awaited is not None:
            uids = self._uids[awaited]
            del uids[uid]
            if not uids:
                del self._uids[awaited]

    def take(self, awaited: str) -> dict[str, None]:
        """Remove and return the pods that wait for this change."""
        uids = self._uids.pop(awaited, {})
        for uid in uids:
            del self._awaited[uid]
        return uids
