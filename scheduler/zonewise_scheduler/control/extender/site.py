"""The extender's verbs as a site: bytes in, bytes out, and what is wrong with either."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol

import msgspec

from zonewise.service.site import Page, Request, text_page
from zonewise_scheduler.control.extender.wire import (
    Arguments,
    Asked,
    BindingArguments,
    BindingResult,
    FilterResult,
    RequestError,
)
from zonewise_scheduler.fit.model.fields import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zonewise_scheduler.control.extender.wire import HostPriority, Json
    from zonewise_scheduler.control.meters import Meters

log = logging.getLogger(__name__)

MOST_BODY = 64 << 20
"""Bytes: 65,000 names of the longest kind are 17 MB, a pod is at most 1.5 MiB (etcd's limit), and 4,000 whole nodes, to
an extender that is not nodeCacheCapable, are about as much."""


class Verbs(Protocol):
    """What the extender does."""

    def filter(self, pod: Json, asked: Asked) -> FilterResult:
        """Choose among the nodes asked about. Raises FieldError."""
        ...

    def prioritize(self, pod: Json, asked: Asked) -> list[HostPriority]:
        """Score them. Raises FieldError."""
        ...

    def bind(self, binding: BindingArguments) -> None:
        """Bind a pod. Raises KubeError."""
        ...


class ExtenderSite:
    """Serves the verbs under /filter, /prioritize and, where it is wanted, /bind."""

    most_body = MOST_BODY

    def __init__(self, verbs: Verbs, meters: Meters, *, bind: bool) -> None:
        self._meters = meters
        self._verbs = verbs
        self._paths: dict[str, Callable[[bytes], object]] = {"/filter": self._filter, "/prioritize": self._prioritize}
        if bind:
            self._paths["/bind"] = self._bind

    def methods(self, path: str) -> Collection[str]:
        """Return what may be asked of a path."""
        return ("POST",) if path in self._paths else ()

    def answer(self, request: Request) -> Page:
        """Answer one call; what cannot be read gets 400 with a sentence that names the field."""
        began = time.perf_counter()
        try:
            page = Page(200, "application/json", msgspec.json.encode(self._paths[request.path](request.body)))
        except (msgspec.DecodeError, RequestError, UnicodeError) as error:
            log.warning("%s: a request is refused: %s", request.path, error)
            page = text_page(400, f"{error}\n")
        self._meters.called(request.path[1:], page.status, time.perf_counter() - began)
        return page

    def _filter(self, body: bytes) -> FilterResult:
        arguments = _ARGUMENTS.decode(body)
        asked = Asked(arguments)
        try:
            return self._verbs.filter(arguments.pod, asked)
        except RequestError:
            raise
        except FieldError as error:
            raise RequestError(f"Pod.{error}") from error
        except Exception as error:  # kube-scheduler should say it, and try the pod again
            log.exception("filter went wrong")
            return FilterResult(error=f"zonewise: {error.__class__.__name__}: {error}")

    def _prioritize(self, body: bytes) -> list[HostPriority]:
        arguments = _ARGUMENTS.decode(body)
        try:
            return self._verbs.prioritize(arguments.pod, Asked(arguments))
        except FieldError as error:
            raise RequestError(f"Pod.{error}") from error

    def _bind(self, body: bytes) -> BindingResult:
        binding = _BINDING.decode(body)
        try:
            self._verbs.bind(binding)
        except Exception as error:  # noqa: BLE001 -- whatever it was, kube-scheduler must hear that the pod is not bound
            log.warning("pod=%s/%s node=%s not bound: %s", binding.namespace, binding.name, binding.node, error)
            return BindingResult(f"zonewise: {error}")
        return BindingResult()


_ARGUMENTS = msgspec.json.Decoder(Arguments)
_BINDING = msgspec.json.Decoder(BindingArguments)
