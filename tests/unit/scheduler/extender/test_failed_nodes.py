"""Reasons by node: a mapping whose JSON and distinct reasons are computed once."""

from __future__ import annotations

import json

from zonewise_scheduler.extender.failed_nodes import FailedNodes, RejectionCause


def test_json_is_encoded_once() -> None:
    """The JSON lists the nodes in their order; a second call returns the same bytes object."""
    failed = FailedNodes({"b": "no", "a": 'not "here"'}, RejectionCause("InFlight"))
    assert list(json.loads(bytes(failed.encoded)).items()) == list(failed.items())
    assert failed.encoded is failed.encoded
    assert failed.messages == ("no", 'not "here"')


def test_no_nodes() -> None:
    assert (bytes(FailedNodes().encoded), FailedNodes().messages, FailedNodes().cause) == (b"{}", (), None)
