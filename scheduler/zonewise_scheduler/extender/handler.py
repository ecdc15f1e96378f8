"""The extender's verbs as a site: bytes in, bytes out, and what is wrong with either."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol

import msgspec

from zonewise_common.k8s.fields import FieldError
from zonewise_common.service.handlers import Request, Response, text_response
from zonewise_scheduler.extender.types import (
    CandidateNodes,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    RequestError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zonewise_scheduler.extender.metrics import ExtenderMetrics
    from zonewise_scheduler.extender.types import HostPriority, Json

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 << 20
"""Bytes: 65,000 names of the longest kind are 17 MB, a pod is at most 1.5 MiB (etcd's limit), and 4,000 whole nodes, to
an extender that is not nodeCacheCapable, are about as much."""


class Extender(Protocol):
    """What the extender does."""

    def filter(self, pod: Json, candidates: CandidateNodes) -> ExtenderFilterResult:
        """Choose among the nodes asked about. Raises FieldError."""
        ...

    def prioritize(self, pod: Json, candidates: CandidateNodes) -> list[HostPriority]:
        """Score them. Raises FieldError."""
        ...

    def bind(self, binding: ExtenderBindingArgs) -> None:
        """Bind a pod. Raises KubeError."""
        ...


class ExtenderHandler:
    """Serves the verbs under /filter, /prioritize and, where it is wanted, /bind."""

    max_body = MAX_BODY_BYTES

    def __init__(self, verbs: Extender, metrics: ExtenderMetrics, *, bind: bool) -> None:
        self._meters = metrics
        self._verbs = verbs
        self._paths: dict[str, Callable[[bytes], object]] = {"/filter": self._filter, "/prioritize": self._prioritize}
        if bind:
            self._paths["/bind"] = self._bind

    def methods(self, path: str) -> Collection[str]:
        """Return what may be asked of a path."""
        return ("POST",) if path in self._paths else ()

    def handle(self, request: Request) -> Response:
        """Answer one call; what cannot be read gets 400 with a sentence that names the field."""
        began = time.perf_counter()
        try:
            page = Response(200, "application/json", msgspec.json.encode(self._paths[request.path](request.body)))
        except (msgspec.DecodeError, RequestError, UnicodeError) as error:
            log.warning("%s: a request is refused: %s", request.path, error)
            page = text_response(400, f"{error}\n")
        self._meters.observe_request(request.path[1:], page.status, time.perf_counter() - began)
        return page

    def _filter(self, body: bytes) -> ExtenderFilterResult:
        arguments = _ARGUMENTS.decode(body)
        asked = CandidateNodes(arguments)
        try:
            return self._verbs.filter(arguments.pod, asked)
        except RequestError:
            raise
        except FieldError as error:
            raise RequestError(f"Pod.{error}") from error
        except Exception as error:  # kube-scheduler should say it, and try the pod again
            log.exception("filter went wrong")
            return ExtenderFilterResult(error=f"zonewise: {error.__class__.__name__}: {error}")

    def _prioritize(self, body: bytes) -> list[HostPriority]:
        arguments = _ARGUMENTS.decode(body)
        try:
            return self._verbs.prioritize(arguments.pod, CandidateNodes(arguments))
        except FieldError as error:
            raise RequestError(f"Pod.{error}") from error

    def _bind(self, body: bytes) -> ExtenderBindingResult:
        binding = _BINDING.decode(body)
        try:
            self._verbs.bind(binding)
        except Exception as error:  # noqa: BLE001 -- whatever it was, kube-scheduler must hear that the pod is not bound
            log.warning("pod=%s/%s node=%s not bound: %s", binding.namespace, binding.name, binding.node, error)
            return ExtenderBindingResult(f"zonewise: {error}")
        return ExtenderBindingResult()


_ARGUMENTS = msgspec.json.Decoder(ExtenderArgs)
_BINDING = msgspec.json.Decoder(ExtenderBindingArgs)
