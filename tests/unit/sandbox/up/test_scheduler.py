"""The substitute for kube-scheduler."""

from __future__ import annotations

from zonewise_sandbox.up.scheduler import fit_error


def test_reasons_have_the_form_of_kube_scheduler() -> None:
    """The extender's reasons already begin with "node(s)", as those of kube-scheduler's filters do."""
    rejects, stale = "node(s) would reject it: needs 9 CPUs in one zone", "node(s) whose report of zones is stale"
    message = fit_error(4, {"a": rejects, "b": stale, "c": rejects})
    assert message == f"0/4 nodes are available: 1 {stale}, 2 {rejects}."
    assert fit_error(4, {}) == "0/4 nodes are available: none passed."
