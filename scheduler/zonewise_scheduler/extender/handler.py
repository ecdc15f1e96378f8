"""Serves the extender's verbs over HTTP: decodes requests, encodes responses and maps errors to them."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from zonewise_common.k8s.fields import FieldError
from zonewise_common.service.handlers import Request, Response, text_response
from zonewise_scheduler.extender.binding_slots import BindingSlots
from zonewise_scheduler.extender.types import (
    CandidateNodes,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    RequestError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zonewise_scheduler.extender.metrics import ExtenderMetrics
    from zonewise_scheduler.extender.types import HostPriority, Json, MetaVictims, ProposedVictims

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_BODY_BYTES = 64 << 20
"""Maximum body in bytes. 65,000 names of maximum length take 17 MB, and a pod at most 1.5 MiB (etcd's limit). An
extender that is not nodeCacheCapable receives whole nodes: 4,000 of them fit."""
MAX_POD_BYTES = 4 << 20
"""Maximum bytes of the pod in a body. The API server accepts requests of at most 3 MiB (MaxRequestBodyBytes). A pod of
64 MB, decoded, would take more memory than the extender may have, and other calls would wait for seconds."""

MAX_VALUES = 4_000_000
"""Maximum number of commas, and thus values, of a body: 64 MB of whole nodes have about half of them. A decoded value
takes up to 100 bytes, so 64 MB of the smallest values would take more memory than the extender may have."""
MAX_VICTIM_VALUES = 1_000_000
"""The same for the verb preempt, where a value takes up to 250 bytes."""


class Extender(Protocol):
    """The verbs of an extender."""

    def filter(self, pod: Json, candidates: CandidateNodes) -> ExtenderFilterResult:
        """Return the candidates that pass. Raises FieldError."""
        ...

    def prioritize(self, pod: Json, candidates: CandidateNodes) -> list[HostPriority]:
        """Return a score for each candidate. Raises FieldError."""
        ...

    def preempt(self, pod: Json, proposed: dict[str, ProposedVictims]) -> dict[str, MetaVictims]:
        """Return the victims by node. Raises FieldError."""
        ...

    def bind(self, binding: ExtenderBindingArgs) -> None:
        """Bind a pod. Raises KubeError."""
        ...


class ExtenderHandler:
    """Serves the verbs under /filter, /prioritize and /preempt, and under /bind if binding is enabled."""

    max_body = MAX_BODY_BYTES

    def __init__(self, verbs: Extender, metrics: ExtenderMetrics, *, bind: bool) -> None:
        self._metrics = metrics
        self._verbs = verbs
        self._slots = BindingSlots()
        self._paths: dict[str, Callable[[bytes], object]] = {
            "/filter": self._filter, "/prioritize": self._prioritize, "/preempt": self._preempt,
        }  # fmt: skip
        if bind:
            self._paths["/bind"] = self._bind

    def methods(self, path: str) -> Collection[str]:
        """Return the allowed methods of a path."""
        return ("POST",) if path in self._paths else ()

    def handle(self, request: Request) -> Response:
        """Handle one call. The response to an invalid request has status 400 and names the field."""
        start = time.perf_counter()
        try:
            response = Response(200, "application/json", msgspec.json.encode(self._paths[request.path](request.body)))
        except (msgspec.DecodeError, RequestError, UnicodeError) as error:
            response = _bad_request(request.path, str(error))
        except RecursionError:
            response = _bad_request(request.path, "the JSON is nested too deeply")
        self._metrics.observe_request(request.path[1:], response.status, time.perf_counter() - start)
        return response

    def _filter(self, body: bytes) -> ExtenderFilterResult:
        arguments = _decode(_ARGUMENTS, body, MAX_VALUES)
        candidates = CandidateNodes(arguments)
        try:
            return self._verbs.filter(arguments.pod, candidates)
        except (RequestError, RecursionError):
            raise
        except FieldError as error:
            raise RequestError(f"Pod.{error}") from error
        except Exception as error:  # kube-scheduler reports the error in an event and retries the pod
            log.exception("filter failed")
            return ExtenderFilterResult(error=f"zonewise: {error.__class__.__name__}: {error}")

    def _prioritize(self, body: bytes) -> list[HostPriority]:
        arguments = _decode(_ARGUMENTS, body, MAX_VALUES)
        try:
            return self._verbs.prioritize(arguments.pod, CandidateNodes(arguments))
        except FieldError as error:
            raise RequestError(f"Pod.{error}") from error

    def _preempt(self, body: bytes) -> ExtenderPreemptionResult:
        arguments = _decode(_PREEMPTION, body, MAX_VICTIM_VALUES)
        try:
            return ExtenderPreemptionResult(self._verbs.preempt(arguments.pod, arguments.victims()))
        except FieldError as error:
            raise RequestError(f"Pod.{error}") from error

    def _bind(self, body: bytes) -> ExtenderBindingResult:
        binding = _BINDING.decode(body)
        try:
            with self._slots.slot(binding.namespace):
                self._verbs.bind(binding)
        except Exception as error:  # noqa: BLE001 -- kube-scheduler must learn that the pod is not bound
            log.warning("pod=%s/%s node=%s not bound: %s", binding.namespace, binding.name, binding.node, error)
            return ExtenderBindingResult(f"zonewise: {error}")
        return ExtenderBindingResult()


def _decode(decoder: msgspec.json.Decoder[T], body: bytes, most: int) -> T:
    """Decode arguments of at most this number of values.

    Raises RequestError if the arguments or the pod are too large to be decoded, and msgspec.DecodeError.
    """
    if body.count(b",") > most:
        raise RequestError(f"more than {most} values")
    if len(body) > MAX_POD_BYTES and len(bytes(_POD.decode(body).pod)) > MAX_POD_BYTES:
        raise RequestError(f"Pod: larger than {MAX_POD_BYTES} bytes")
    return decoder.decode(body)


def _bad_request(path: str, reason: str) -> Response:
    log.warning("%s: invalid request: %s", path, reason)
    return text_response(400, f"{reason}\n")


class _RawPod(msgspec.Struct, rename="pascal"):
    """The pod of any arguments, unparsed."""

    pod: msgspec.Raw = msgspec.Raw()


_POD = msgspec.json.Decoder(_RawPod)
_ARGUMENTS = msgspec.json.Decoder(ExtenderArgs)
_PREEMPTION = msgspec.json.Decoder(ExtenderPreemptionArgs)
_BINDING = msgspec.json.Decoder(ExtenderBindingArgs)
