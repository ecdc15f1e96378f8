"""A sweep as an Indexed Job."""

from __future__ import annotations

from base64 import b64decode

import pytest

from zonewise_scheduler.simulator.sweep.indexed_job import INPUTS, SWEEP_LABEL, SweepJob

SWEEP = SweepJob(("simulate", "hpc", "--repeat", "20"), 20, 5, "zonewise-scheduler:1", "ns", {})
WITH_FILES = SWEEP._replace(files={"trace/log.gz": b"\x1f\x8b\xff", "nodes/fleet.yaml": b"kinds: []"})


def test_each_index_is_one_run_and_a_failed_index_ends_the_job() -> None:
    spec = SWEEP.job["spec"]
    assert {name: value for name, value in spec.items() if name != "template"} == {
        "completionMode": "Indexed", "completions": 20, "parallelism": 5, "backoffLimitPerIndex": 1,
        "maxFailedIndexes": 0,
    }  # fmt: skip
    assert SWEEP.job["metadata"] == {"name": SWEEP.name, "namespace": "ns", "labels": {SWEEP_LABEL: SWEEP.name}}
    assert spec["template"]["metadata"]["labels"] == {SWEEP_LABEL: SWEEP.name}


def test_pods_have_no_permissions_and_no_files_unless_needed() -> None:
    spec = SWEEP.job["spec"]["template"]["spec"]
    assert (spec["automountServiceAccountToken"], spec["securityContext"]["runAsNonRoot"]) == (False, True)
    assert SWEEP.config_map is None
    assert "volumes" not in spec
    assert "volumeMounts" not in spec["containers"][0]


def test_the_files_are_in_a_config_map_at_their_paths() -> None:
    objects, spec = WITH_FILES.config_map, WITH_FILES.job["spec"]["template"]["spec"]
    assert objects is not None
    (volume,) = spec["volumes"]
    assert volume["configMap"]["name"] == objects["metadata"]["name"] == WITH_FILES.name
    paths = {item["path"]: b64decode(objects["binaryData"][item["key"]]) for item in volume["configMap"]["items"]}
    assert paths == WITH_FILES.files
    assert spec["containers"][0]["volumeMounts"] == [{"name": volume["name"], "mountPath": INPUTS, "readOnly": True}]


@pytest.mark.parametrize(
    "other",
    [
        SWEEP._replace(arguments=("simulate", "ai", "--repeat", "20")),
        SWEEP._replace(runs=21),
        SWEEP._replace(image="zonewise-scheduler:2"),
        WITH_FILES,
        WITH_FILES._replace(files={**WITH_FILES.files, "trace/log.gz": b""}),
        WITH_FILES._replace(files={"trace/other.gz": b"\x1f\x8b\xff", "nodes/fleet.yaml": b"kinds: []"}),
    ],
)
def test_the_name_depends_on_everything_that_affects_the_results(other: SweepJob) -> None:
    assert other.name not in (SWEEP.name, WITH_FILES.name) or other is WITH_FILES
    assert other.name != SWEEP.name


def test_the_same_sweep_has_the_same_name() -> None:
    """The name does not depend on the number of parallel pods or on the namespace."""
    assert SWEEP.name == SWEEP._replace(parallelism=20, namespace="other").name == "sweep-d9eefe79a934"
