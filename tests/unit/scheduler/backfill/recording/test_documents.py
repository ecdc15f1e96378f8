"""Explanations and forecasts as JSON."""

from __future__ import annotations

import json
from math import inf

from zonewise_scheduler.backfill.explanation.explanation import Explanation, QuotaShortage
from zonewise_scheduler.backfill.recording.documents import json_document
from zonewise_scheduler.backfill.types import Forecast, ReservedStart


def test_an_unknown_start_is_null() -> None:
    assert json_document(Forecast(1, 2.5, inf)) == {"earliest": 1, "likely": 2.5, "latest": None}


def test_an_explanation_is_an_object_of_objects() -> None:
    shortage = QuotaShortage("all", "cpu", 4000, 1000, "cohort", "team", 8000, not_lent=500)
    explanation = Explanation(
        "ns/a", "q", 2, 5.0, shortages=(shortage,), delayed_reservation=ReservedStart("ns/b", 9.0), waits_for=("ns/c",)
    )
    document = json_document(explanation)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert isinstance(document, dict)
    assert document["shortages"] == [
        {
            "flavor": "all",
            "resource": "cpu",
            "requested": 4000,
            "available": 1000,
            "limitKind": "cohort",
            "limitingNode": "team",
            "limitAmount": 8000,
            "notLent": 500,
            "exceedsMaxQuota": False,
        }
    ]
    assert document["delayedReservation"] == {"key": "ns/b", "start": 9.0}
    assert (document["waitsFor"], document["start"], document["placementFailure"]) == (["ns/c"], None, None)
