"""The clauses of the message of a waiting job."""

from __future__ import annotations

import pytest

from support.waiting_messages import MESSAGES
from zonewise_scheduler.client.describe.message_clauses import message_clauses


@pytest.mark.parametrize("clauses", MESSAGES)
def test_the_parts_of_a_clause_stay_together(clauses: list[str]) -> None:
    assert message_clauses("; ".join(clauses)) == clauses
