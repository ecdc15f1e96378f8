"""The levels of slices in an annotation: what Kueue accepts, and nothing else."""

from __future__ import annotations

import json

import pytest

from support.admission_reviews import job, problems_of
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER
from zonewise_scheduler.quota.api.slice_layers import parse_slice_layers

RACK = {"topology": "example.com/rack", "size": 4}
HOST = {"topology": "kubernetes.io/hostname", "size": 2}


@pytest.mark.parametrize(
    ("layers", "parsed"),
    [
        ([RACK, HOST], [RACK, HOST]),
        ([{**RACK, "comment": "x"}], [RACK]),
        ([{"Topology": RACK["topology"], "SIZE": 4}], [RACK]),
        ([{**RACK, "size": (1 << 31) - 1}], [{**RACK, "size": (1 << 31) - 1}]),
        ([{**RACK, "size": 1 << 31}], None),
        ([{**RACK, "size": 4.0}], None),
        ([{**RACK, "size": True}], None),
        ([{**RACK, "size": 0}], None),
        ([{"topology": "a b", "size": 4}], None),
        ([{"size": 4}], None),
        ([None], None),
        ([RACK] * 4, None),
        ([], None),
        (RACK, None),
        (None, None),
    ],
)
def test_levels_are_read_as_in_kueue(layers: object, parsed: object) -> None:
    assert parse_slice_layers(json.dumps(layers)) == parsed


@pytest.mark.parametrize("text", ["[", "[" * 100_000, 7, None])
def test_other_values_are_no_levels(text: object) -> None:
    assert parse_slice_layers(text) is None


def test_a_job_that_the_webhook_accepts_gets_a_workload() -> None:
    """An unknown field had passed the webhook, and then the job was invalid."""
    made = job("q")
    constraints = json.dumps([{**RACK, "comment": "x"}])
    annotation = {"kueue.x-k8s.io/podset-slice-required-topology-constraints": constraints}
    made["spec"] |= {"parallelism": 4, "completions": 4}
    made["spec"]["template"] = {
        "metadata": {"annotations": {**annotation, "kueue.x-k8s.io/podset-required-topology": "example.com/block"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    assert problems_of(made) == ""
    [pod_set] = ADAPTER.pod_sets(made)
    assert (pod_set.topology_request or {})["podsetSliceRequiredTopologyConstraints"] == [RACK]
