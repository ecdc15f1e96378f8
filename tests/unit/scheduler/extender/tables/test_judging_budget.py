"""The CPU time that one call may spend on judging individual nodes."""

from __future__ import annotations

from zonewise_scheduler.extender.tables.judging_budget import JudgingBudget


def test_budget_of_a_clock() -> None:
    """The budget is spent when the clock has advanced by its seconds."""
    now = [5.0]
    budget = JudgingBudget(2.0, lambda: now[0])
    assert not budget.is_spent
    now[0] = 6.9
    assert not budget.is_spent
    now[0] = 7.0
    assert budget.is_spent


def test_a_budget_of_zero_seconds() -> None:
    """A budget of zero seconds is spent from the start."""
    assert JudgingBudget(0.0).is_spent
