"""The webhooks and the read API on a single port."""

from __future__ import annotations

import threading

from support.admission_reviews import rules
from support.waiting import PATIENCE
from zonewise_common.service.handlers import GetHandler, Request, Response, text_response
from zonewise_scheduler.controller.webhooks.handler import MAX_BODY_BYTES, VALIDATE_PATH, WebhookHandler
from zonewise_scheduler.controller.webhooks.shared_port import MAX_READS, SharedPortHandler

PLAN = Request("GET", "/api/v1/plan")


def test_each_path_belongs_to_the_webhooks_or_to_the_read_api() -> None:
    read_api = GetHandler(
        {"/api/v1/plan": lambda _: text_response(200, "plan\n"), "/metrics": lambda _: text_response(200, "")}
    )
    handler = SharedPortHandler(WebhookHandler(rules()), read_api, lambda: False)
    assert handler.max_body == MAX_BODY_BYTES
    assert handler.methods("/api/v1/plan") == ("GET",)
    assert handler.methods(VALIDATE_PATH) == ("POST",)
    assert not handler.methods("/metrics")
    assert not handler.methods("/api/v1/other")
    assert handler.handle(PLAN).body == b"plan\n"
    assert handler.handle(Request("POST", VALIDATE_PATH, body=b"none")).status == 400


def test_only_the_leader_serves_the_read_api() -> None:
    """A standby replica serves the webhooks, but it knows no reservations and forecasts."""
    stands_by = True
    read_api = GetHandler({"/api/v1/plan": lambda _: text_response(200, "plan\n")})
    handler = SharedPortHandler(WebhookHandler(rules()), read_api, lambda: stands_by)
    assert handler.handle(PLAN).status == 421
    assert handler.handle(Request("POST", VALIDATE_PATH, body=b"none")).status == 400
    stands_by = False
    assert handler.handle(PLAN).status == 200


def test_slow_reads_leave_threads_to_the_webhooks() -> None:
    """At most MAX_READS requests of the read API are served at once; the webhooks are served nevertheless."""
    entered, ending = threading.Semaphore(0), threading.Event()

    def wait(_: Request) -> Response:
        entered.release()
        ending.wait(PATIENCE)
        return text_response(200, "")

    handler = SharedPortHandler(WebhookHandler(rules()), GetHandler({"/api/v1/plan": wait}), lambda: False)
    threads = [threading.Thread(target=handler.handle, args=(PLAN,)) for _ in range(MAX_READS)]
    for thread in threads:
        thread.start()
        assert entered.acquire(timeout=PATIENCE)
    try:
        assert handler.handle(PLAN).status == 429
        assert handler.handle(Request("POST", VALIDATE_PATH, body=b"none")).status == 400
    finally:
        ending.set()
    for thread in threads:
        thread.join()
    assert handler.handle(PLAN).status == 200
