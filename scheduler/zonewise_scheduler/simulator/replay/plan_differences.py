"""The differences between two plans of one scheduling pass (backfill/recording/plan_document.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Json = dict[str, Any]

_LISTS = {
    "admitted": "admitted",
    "placed": "placed",
    "victims": "preempted",
    "stopped": "stopped",
    "reserved": "reserved",
}
"""Fields of a plan, and words for what happened to the workloads in them."""


def plan_differences(recorded: Mapping[str, Any], replayed: Mapping[str, Any]) -> Iterator[str]:
    """Yield a clause for each difference: "admitted in the recording only: ns/a"."""
    for field, verb in _LISTS.items():
        yield from _list_differences(verb, _by_key(recorded.get(field)), _by_key(replayed.get(field)))
    if recorded.get("wakeAt") != replayed.get("wakeAt"):
        yield f"next pass at {recorded.get('wakeAt')}, in the replay at {replayed.get('wakeAt')}"


def _list_differences(verb: str, recorded: Mapping[str, Json], replayed: Mapping[str, Json]) -> Iterator[str]:
    only_recorded = [key for key in recorded if key not in replayed]
    only_replayed = [key for key in replayed if key not in recorded]
    both = [key for key in recorded if key in replayed]
    otherwise = [key for key in both if recorded[key] != replayed[key]]
    if only_recorded:
        yield f"{verb} in the recording only: {', '.join(only_recorded)}"
    if only_replayed:
        yield f"{verb} in the replay only: {', '.join(only_replayed)}"
    if otherwise:
        yield f"{verb} otherwise: {', '.join(otherwise)}"
    if both != [key for key in replayed if key in recorded]:
        yield f"{verb} in another order: {', '.join(both)}"


def _by_key(items: object) -> dict[str, Json]:
    """Return the objects of a list by key; items of a damaged plan by their representation."""
    if not isinstance(items, list):
        return {}
    return {
        str(cast("Json", item).get("key")) if isinstance(item, dict) else repr(item)[:80]: cast("Json", item)
        for item in cast("list[object]", items)
    }
