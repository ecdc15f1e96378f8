"""Events of the core group: the lines that `kubectl describe` shows below an object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

MAX_MESSAGE = 1024
"""Maximum bytes in the message of an Event (pkg/apis/core/validation/events.go)."""
NODE_NAMESPACE = "default"
"""The namespace for Events of objects without a namespace (client-go tools/record/event.go)."""
_MAX_NAME = 253  # characters: a DNS subdomain


class Occurrences(NamedTuple):
    """How often an Event has occurred, and when."""

    first: datetime
    last: datetime
    total: int = 1


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def node_reference(name: str) -> dict[str, str]:
    """Return the reference to the Node that an Event involves. Its UID is the name, as in the kubelet's own Events."""
    return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": name}


def event(
    involved: dict[str, str],
    suffix: str,
    component: str,
    reason: str,
    message: str,
    *,
    event_type: str,
    seen: Occurrences,
) -> dict[str, Any]:
    """Return an Event of the type "Normal" or "Warning", named NAME.SUFFIX; a long message is truncated."""
    namespace = involved.get("namespace", NODE_NAMESPACE)
    name = involved["name"][: _MAX_NAME - 1 - len(suffix)].rstrip("-.")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{suffix}", "namespace": namespace},
        "involvedObject": involved,
        "reason": reason,
        "message": message.encode(errors="replace")[:MAX_MESSAGE].decode(errors="ignore"),
        "type": event_type,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": timestamp(seen.first),
        "lastTimestamp": timestamp(seen.last),
        "count": seen.total,
    }


def timestamp(time: datetime) -> str:
    """Return a time in the API server's format, to the second (apimachinery pkg/apis/meta/v1/time.go)."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
