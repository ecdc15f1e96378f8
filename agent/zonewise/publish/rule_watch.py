"""The cluster's NodeFeatureRules or NodeFeatureGroups: listed and watched if the API server has that kind.

| response of the server | the rules |
|---|---|
| none yet, or a failure before the first listing | unknown: earlier outputs of rules must remain |
| the kind is not served, twice in a row | none; checked again after a while, since the CRD may be installed later |
| a list | the list, with the changes from the watch; a later failure does not change them |
"""

from __future__ import annotations

import logging
import random
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from zonewise.publish.object_watch import WATCH_TIMES
from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.errors import KubeError, NotFound
from zonewise_common.kube.reflector import Reflector

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.rules.types import RuleObject
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource

log = logging.getLogger(__name__)

ABSENT_PAUSE = 60.0
"""Seconds between two requests for a kind that is not served, spread over half to one and a half times this value."""
_CLOSE_TIMEOUT = 0.2
"""Seconds to wait for a request in progress."""
CONFIRM_PAUSE = 2.0
"""Seconds until a kind that is not served is looked for a second time. An API server that starts may lack the kind for
a moment. Without the second look, the outputs of rules would be removed."""
FAILURE_BACKOFF = Backoff(base=0.5, cap=60.0)
"""Pauses while the server does not respond or forbids the request."""


class RuleWatch:
    """A copy of all objects of one kind, maintained by its own thread."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        changed: Callable[[], None],
        *,
        draw: Callable[[], float] = random.random,
        absent_pause: float = ABSENT_PAUSE,
    ) -> None:
        """Watch NODE_FEATURE_RULES or NODE_FEATURE_GROUPS. `changed` is called in the watch's thread."""
        self._client = client
        self._resource = resource
        self._changed = changed
        self._draw = draw
        self._absent_pause = absent_pause
        self._known = threading.Event()
        self._stopping = threading.Event()
        self._problem = ""
        self._is_absent = False  # at the last look
        self._failures = 0
        self._reflector: Reflector[RuleObject] = Reflector(
            client, resource, partial(_decode, resource), self._observe, times=WATCH_TIMES, draw=draw
        )
        self._reflector.on_listing = self._listed
        self._thread = threading.Thread(target=self._run, name=f"look-for-{resource.plural}", daemon=True)

    def rules(self) -> tuple[RuleObject, ...] | None:
        """Return the objects by name; None while they are unknown."""
        if not self._known.is_set():
            return None
        return tuple(sorted(self._reflector.values(), key=lambda rule_object: rule_object.name))

    @property
    def problem(self) -> str:
        """Return why the rules are unknown; empty if that is not known either."""
        return self._problem

    @property
    def age(self) -> float:
        """Return the seconds since the rules were last known to be current; 0 if the kind is not served."""
        return self._reflector.age if self._reflector.has_synced else 0.0

    def wait_known(self, seconds: float) -> bool:
        """Wait until the rules are known; return whether that took less than the given number of seconds."""
        return self._known.wait(seconds)

    def start(self) -> None:
        """Start the thread of the watch."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._stopping.set()
        self._reflector.close()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT)

    def _run(self) -> None:
        while not self._stopping.is_set():
            pause = self._look()
            if pause is None:
                self._reflector.start()
                return
            self._stopping.wait(pause)

    def _look(self) -> float | None:
        """Check whether the kind is served; return the seconds until the next check, None if it is."""
        try:
            self._client.list_raw(self._resource, lambda _raw: None)
        except NotFound:
            self._problem = ""
            if not self._is_absent:
                self._is_absent = True
                return min(CONFIRM_PAUSE, self._absent_pause)
            self._became_known()
            return self._absent_pause * (0.5 + self._draw())
        except KubeError as error:
            self._is_absent = False
            self._failures += 1
            if str(error) != self._problem:
                log.warning("%ss cannot be listed: %s", self._resource.kind, error)
            self._problem = str(error)
            self._report()
            return FAILURE_BACKOFF.delay(self._failures - 1, self._draw())
        return None

    def _listed(self, _version: int) -> None:
        self._problem = ""
        self._became_known()

    def _became_known(self) -> None:
        if not self._known.is_set():
            self._known.set()
            self._report()

    def _observe(self, old: RuleObject | None, new: RuleObject | None) -> None:
        if old != new and self._known.is_set():  # a status carries no new information
            self._report()

    def _report(self) -> None:
        if not self._stopping.is_set():
            self._changed()


class _RuleMetadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""


class _RuleDocument(msgspec.Struct, gc=False):
    """An object without its status and its managed fields: those of a group name every node."""

    metadata: _RuleMetadata = _RuleMetadata()
    spec: Any = None


_DOCUMENT = msgspec.json.Decoder(_RuleDocument)


def _decode(resource: Resource, raw: msgspec.Raw) -> RuleObject:
    """Return a rule object. Raises ValueError for a value that is not an object."""
    from zonewise.rules.parsing import parse_object
    from zonewise.rules.types import RuleError

    try:
        document = msgspec.to_builtins(_DOCUMENT.decode(raw))
        return parse_object({**document, "apiVersion": resource.api_version, "kind": resource.kind})
    except RuleError as error:
        raise ValueError(str(error)) from error
