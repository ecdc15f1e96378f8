"""The pods that wait for a change of a node, or of the terms of other pods."""

from __future__ import annotations


class AwaitedChanges:
    """UIDs by what they wait for; a pod waits for one thing at a time."""

    def __init__(self) -> None:
        self._uids: dict[str, dict[str, None]] = {}
        self._awaited: dict[str, str] = {}
        """What each pod waits for, by UID."""

    def __len__(self) -> int:
        return len(self._awaited)

    def add(self, awaited: str, uid: str) -> None:
        """Let a pod wait for this, and for nothing else."""
        self.remove(uid)
        self._awaited[uid] = awaited
        self._uids.setdefault(awaited, {})[uid] = None

    def remove(self, uid: str) -> None:
        """Forget a pod, if it waits."""
        awaited = self._awaited.pop(uid, None)
        if awaited is not None:
            uids = self._uids[awaited]
            del uids[uid]
            if not uids:
                del self._uids[awaited]

    def take(self, awaited: str) -> dict[str, None]:
        """Return the pods that wait for this: they wait no more."""
        uids = self._uids.pop(awaited, {})
        for uid in uids:
            del self._awaited[uid]
        return uids
