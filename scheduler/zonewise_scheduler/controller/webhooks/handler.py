"""The webhooks over HTTP: decode AdmissionReviews, call the pure functions, and encode their responses."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_common.service.handlers import Request, Response, text_response
from zonewise_scheduler.controller.webhooks.admission_review import allow, read_review, reject
from zonewise_scheduler.controller.webhooks.default_object import default_object
from zonewise_scheduler.controller.webhooks.replicated_pods import REPLICATED, replicated_pods_problems
from zonewise_scheduler.controller.webhooks.rules import LEADER_WORKER_SET, POD, belongs_to_job
from zonewise_scheduler.controller.webhooks.unknown_names import job_warnings
from zonewise_scheduler.controller.webhooks.validate_job import job_problems
from zonewise_scheduler.controller.webhooks.validate_pod import pod_problems
from zonewise_scheduler.controller.webhooks.validate_queue import QUEUE_KINDS, queue_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.webhooks.admission_review import AdmissionRequest
    from zonewise_scheduler.controller.webhooks.rules import AdmissionRules

log = logging.getLogger(__name__)

DEFAULT_PATH = "/default"
VALIDATE_PATH = "/validate"
MAX_BODY_BYTES = 8 << 20
"""Maximum size of a request body. A request to the API server has at most 3 MiB (apiserver pkg/server/config.go
MaxRequestBodyBytes), and an update contains two objects."""


class WebhookHandler:
    """Serves the mutating webhook under /default, and the validating webhook under /validate.

    The kube-apiserver calls both without credentials. Their responses depend only on the request, and on which
    namespaces have a default queue.
    """

    max_body = MAX_BODY_BYTES

    def __init__(self, rules: AdmissionRules, stands_by: Callable[[], bool] = lambda: False) -> None:
        """Create a handler with the facts that decide together with the objects.

        `stands_by`: returns whether another controller manages the queues, so that each object is allowed unchanged.
        """
        self._rules = rules
        self._stands_by = stands_by
        self._paths: dict[str, Callable[[AdmissionRequest], Json]] = {
            DEFAULT_PATH: self._default,
            VALIDATE_PATH: self._validate,
        }

    def methods(self, path: str) -> Collection[str]:
        """Return the HTTP methods that a path allows."""
        return ("POST",) if path in self._paths else ()

    def handle(self, request: Request) -> Response:
        """Return the AdmissionReview with the response; 400 if the body is not an AdmissionReview."""
        try:
            admission = read_review(_decode(request.body))
        except (ValueError, RecursionError) as error:
            return text_response(400, f"no AdmissionReview: {str(error)[:500]}\n")
        try:
            review = allow(admission.uid) if self._stands_by() else self._paths[request.path](admission)
        except FieldError as error:
            review = reject(admission.uid, (str(error),))
        if not review["response"]["allowed"]:
            log.info("%s of %s in %s rejected: %s", admission.operation, admission.kind, admission.namespace,
                     review["response"]["status"]["message"])  # fmt: skip
        return Response(200, "application/json", json.dumps(review).encode())

    def _default(self, request: AdmissionRequest) -> Json:
        return allow(request.uid, default_object(request, self._rules))

    def _validate(self, request: AdmissionRequest) -> Json:
        problems = tuple(self._problems(request))
        return reject(request.uid, problems) if problems else allow(request.uid, warnings=self._warnings(request))

    def _warnings(self, request: AdmissionRequest) -> Sequence[str]:
        """Return warnings about a new job. The pods of a LeaderWorkerSet inherit the annotations of its templates."""
        is_job = request.group_kind in self._rules.suspend_paths and request.group_kind != LEADER_WORKER_SET
        is_new_job = is_job and request.operation == "CREATE" and self._rules.manages(request.namespace)
        return job_warnings(request.obj) if is_new_job else ()

    def _problems(self, request: AdmissionRequest) -> Collection[str]:
        is_queue = request.group_kind in QUEUE_KINDS
        is_checked = is_queue or self._rules.manages(request.namespace)
        if request.operation not in {"CREATE", "UPDATE"} or not is_checked:
            return ()
        if is_queue:
            return queue_problems(request)
        if request.group_kind == POD:
            return tuple(pod_problems(request)) if request.operation == "CREATE" else ()
        if request.group_kind in REPLICATED:
            # their owner is queued instead, and scales them
            is_owned = belongs_to_job(request.obj, request.namespace, self._rules)
            return () if is_owned else tuple(replicated_pods_problems(request))
        if request.group_kind in self._rules.suspend_paths:
            return tuple(job_problems(request, self._rules))
        return ()


def _decode(body: bytes) -> Json:
    document = json.loads(body)
    if not isinstance(document, dict):
        raise FieldError("body", "not an object")
    return document  # pyright: ignore[reportUnknownVariableType]
