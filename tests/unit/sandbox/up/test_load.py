"""Jobs that a load submits over time."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest

from zonewise_common.k8s.quantity import parse_value
from zonewise_sandbox.up.load import FILL, LoadError, load_jobs
from zonewise_sandbox.up.node_descriptions import parse_nodes

if TYPE_CHECKING:
    from zonewise_sandbox.up.load import SubmittedAt

GPU = "nvidia.com/gpu"


def drawn(mix: str, nodes: str, count: int, *, share: float = 0.9, seed: int = 0) -> list[SubmittedAt]:
    return list(islice(load_jobs(mix, parse_nodes(nodes), share=share, seed=seed), count))


def gpus(entry: SubmittedAt) -> int:
    limits = entry.job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    return int(limits[GPU]) * entry.job["spec"]["parallelism"]


def test_jobs_come_by_time_and_have_names_of_their_own() -> None:
    """Jobs come in order of time, and with unique names, across several batches of drawn jobs."""
    jobs = drawn("ai", "16xhgx-h100", 2500)
    times = [entry.at for entry in jobs]
    assert times == sorted(times)
    assert times[0] == 0.0 < times[-1]
    assert len({entry.job["metadata"]["name"] for entry in jobs}) == len(jobs)


def test_the_start_fills_the_nodes() -> None:
    """Without the last job, the jobs at the start request less than FILL times the GPUs; with it, at least as much."""
    jobs = drawn("ai", "16xhgx-h100", 300)
    first = [entry for entry in jobs if entry.at == 0.0]
    asked = sum(map(gpus, first[:-1]))  # the first of the later jobs is also at 0
    assert asked < FILL * 128 <= asked + gpus(first[-1])


def test_every_pod_fits_on_a_node_and_gets_cpus_exclusively() -> None:
    machine = parse_nodes("1").nodes[0].machine
    for entry in drawn("ai", "16xhgx-h100", 200):
        limits = entry.job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        assert limits.keys() == {"cpu", "memory", GPU}
        for resource, amount in limits.items():
            assert 0 < parse_value(amount) <= parse_value(machine.allocatable[resource])
        spec, annotations = entry.job["spec"], entry.job["spec"]["template"]["metadata"]["annotations"]
        assert spec["completions"] == spec["parallelism"] == int(annotations["zonewise.dev/simulated-gang-pods"])
        walltime = float(entry.job["metadata"]["annotations"]["zonewise.dev/max-run-seconds"])
        assert float(annotations["zonewise.dev/simulated-run-seconds"]) <= walltime


def test_a_seed_gives_the_same_jobs() -> None:
    assert drawn("hpc", "4xxeon-8358", 50, seed=3) == drawn("hpc", "4xxeon-8358", 50, seed=3)
    assert drawn("hpc", "4xxeon-8358", 50, seed=3) != drawn("hpc", "4xxeon-8358", 50, seed=4)


def test_a_smaller_share_is_submitted_more_slowly() -> None:
    slow, fast = (drawn("batch", "4xxeon-8358", 500, share=share)[-1].at for share in (0.3, 0.9))
    assert slow > 2 * fast


@pytest.mark.parametrize(("mix", "nodes"), [("ai", "2xxeon-8358"), ("foo", "1")])
def test_loads_that_the_nodes_cannot_run(mix: str, nodes: str) -> None:
    with pytest.raises(LoadError, match=f"--load {mix}: "):
        load_jobs(mix, parse_nodes(nodes))
