"""The objects of `zonewise submit`: API servers accept all of them, and store them unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.apiserver import real_server
from support.clusters import Cluster, cluster, embedded_server
from zonewise_scheduler.client.submit.job_objects import job_objects
from zonewise_scheduler.client.submit.job_request import GPU, JobRequest
from zonewise_scheduler.client.submit.sbatch_values import parse_array

if TYPE_CHECKING:
    from typing import Any

__all__ = ["cluster", "embedded_server", "real_server"]

REQUESTS = {
    "one pod": JobRequest("a", "image:1", "gpu"),
    "several pods": JobRequest("a", "image:1", "gpu", 4, 8, 32, 64 << 30, {GPU: 8}, 7200.0, dependency="afterok:b"),
    "array": JobRequest("a", "image:1", "gpu", walltime=60.0, array=parse_array("0-99:2%8"), output_file="out-%a"),
    "large array": JobRequest("a", "image:1", "gpu", array=parse_array("0-99999")),
    "mpi": JobRequest("a", "image:1", "gpu", 2, mpi=True, ssh_keys="keys", requeue=True, topology="rack"),
    "volumes": JobRequest("a" * 52, "image:1", "gpu", 2, volumes=(("data", "/data"),), node_selector={"pool": "a"}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_servers_accept_the_objects_of_a_job(cluster: Cluster, name: str) -> None:
    paths = {"ConfigMap": cluster.config_maps, "Service": f"{cluster.core}/services", "Job": cluster.jobs}
    for obj in job_objects(REQUESTS[name], "#!/bin/sh\ntrue\n"):
        stored: dict[str, Any] = cluster.api.post(paths[obj["kind"]], obj).ok()
        assert stored["metadata"]["name"] == obj["metadata"]["name"]
        if obj["kind"] == "Job":
            kept = {field: stored["spec"].get(field) for field in obj["spec"] if field != "template"}
            assert kept == {field: value for field, value in obj["spec"].items() if field != "template"}
