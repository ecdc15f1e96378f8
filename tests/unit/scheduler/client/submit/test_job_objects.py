"""The objects of a job, and the start script run in a shell."""

from __future__ import annotations

import shutil
import subprocess
from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

import pytest

from zonewise_scheduler.client.submit.job_objects import job_objects, pods_text, start_script, summary
from zonewise_scheduler.client.submit.job_request import GPU, JobRequest, job_request
from zonewise_scheduler.client.submit.sbatch_values import parse_array
from zonewise_scheduler.commands import submit
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions, build_workload
from zonewise_scheduler.quota.api.declared_walltime import read_walltime
from zonewise_scheduler.quota.api.workload_reader import read_workload

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

SCRIPT = "#!/bin/sh\necho run\n"
TRAIN = JobRequest("train", "image:1", "gpu", 4, 8, 32, 64 << 30, {GPU: 8}, 7200.0)


def objects(request: JobRequest) -> dict[str, Json]:
    return {obj["kind"]: obj for obj in job_objects(request, SCRIPT)}


def test_a_job_of_several_pods() -> None:
    by_kind = objects(TRAIN)
    assert list(by_kind) == ["ConfigMap", "Service", "Job"]
    assert by_kind["ConfigMap"]["data"]["script"] == SCRIPT
    assert by_kind["ConfigMap"]["data"]["hosts"].splitlines()[3] == "train-3.train slots=8"
    assert by_kind["ConfigMap"]["data"]["hosts.hydra"].splitlines()[0] == "train-0.train:8"
    assert by_kind["Service"]["spec"]["clusterIP"] == "None"
    job = by_kind["Job"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu"
    assert (job["spec"]["suspend"], job["spec"]["completions"], job["spec"]["parallelism"]) == (True, 4, 4)
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == by_kind["Service"]["metadata"]["name"]
    [container] = pod["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["resources"]["limits"] == {"cpu": "32", "memory": "64Gi", GPU: "8"}
    assert summary(TRAIN) == "4 pods, each 32 cpu, 64Gi memory, 8 nvidia.com/gpu"


def test_a_host_list_that_is_too_long_is_left_out() -> None:
    """Linux does not start programs with a variable of 128 KiB; the file contains all hosts."""
    by_kind = objects(TRAIN._replace(name="llama-405b-pretrain-run-12", pods=2500))
    [container] = by_kind["Job"]["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert "SLURM_JOB_NODELIST" not in variables
    assert variables["SLURM_JOB_NUM_NODES"] == "2500"
    assert len(by_kind["ConfigMap"]["data"]["hosts"].splitlines()) == 2500
    subprocess.run(["/bin/true"], env=variables, check=True)


def test_the_planner_reads_the_walltime() -> None:
    job = objects(TRAIN)["Job"]
    assert job["spec"]["activeDeadlineSeconds"] == 7200
    assert read_walltime(job) == (7200.0, ())
    job["spec"]["activeDeadlineSeconds"] = 14400  # its user extends it
    assert read_walltime(job) == (14400.0, ())


def test_the_controller_builds_a_workload_from_it() -> None:
    job = objects(TRAIN)["Job"]
    job["metadata"] |= {"uid": "u", "namespace": "ns"}
    workload = build_workload(job, ADAPTER.resource, ADAPTER.pod_sets(job), ManifestOptions())
    result = read_workload(workload)
    assert result.workload is not None
    assert (result.workload.pod_sets[0].pods, result.workload.walltime) == (4, 7200.0)


def test_arguments_and_variables_are_not_expanded() -> None:
    """Kubernetes replaces $$ by $, and $(NAME) by the value of a variable; sbatch does neither."""
    job = objects(JobRequest("a", "i", "q", environment={"A": "1$$2"}, arguments=("$(SLURM_JOB_NAME)", "$5")))["Job"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][1:] == ["$$(SLURM_JOB_NAME)", "$$5"]
    assert container["env"][-1] == {"name": "A", "value": "1$$$$2"}


@pytest.mark.parametrize("resource", [GPU, "gpu.intel.com/i915"])
def test_the_number_of_gpus_is_a_variable(resource: str) -> None:
    """The GPUs may be of any resource that --gpu-resource names."""
    parser = ArgumentParser()
    submit.add_arguments(parser)
    words = ["--image", "i", "--gpus-per-node", "2", "--gres", "rdma/hca:1", "--gpu-resource", resource, "a.sh"]
    request = job_request(parser.parse_args(words), "a.sh", {})
    [container] = objects(request)["Job"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "SLURM_GPUS_ON_NODE", "value": "2"} in container["env"]


def test_one_pod_needs_no_service() -> None:
    by_kind = objects(JobRequest("a", "i", "q"))
    assert list(by_kind) == ["ConfigMap", "Job"]
    assert "hosts" not in by_kind["ConfigMap"]["data"]
    assert "annotations" not in by_kind["Job"]["metadata"]


def test_an_array_declares_the_time_of_all_its_waves() -> None:
    """The time limit applies to each element; ten elements, three at once, run in four waves."""
    spec = objects(JobRequest("a", "i", "q", walltime=60.0, array=parse_array("0-9%3")))["Job"]["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimitPerIndex"]) == (10, 3, 0)
    assert "activeDeadlineSeconds" not in spec
    assert spec["template"]["spec"]["activeDeadlineSeconds"] == 60
    assert read_walltime(objects(JobRequest("a", "i", "q", walltime=60.0, array=parse_array("0-9%3")))["Job"])[0] == 240


@pytest.mark.parametrize(("array", "text"), [("0-7%2", "8 pods, 2 at once, each 1 cpu"), ("0-7", "8 pods, each 1 cpu")])
def test_the_summary_states_how_many_elements_run_at_once(array: str, text: str) -> None:
    assert summary(JobRequest("a", "i", "q", array=parse_array(array))) == text


def test_other_fields() -> None:
    request = TRAIN._replace(
        mpi=True, ssh_keys="keys", node_selector={"pool": "a"}, priority_class="high", topology="rack",
        volumes=(("data", "/data"),), dependency="afterok:prepare", requeue=True, working_directory="/work",
        environment={"A": "1"}, arguments=("x", "y"),
    )  # fmt: skip
    job = objects(request)["Job"]
    assert job["spec"]["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    assert job["spec"]["backoffLimit"] == 6
    assert job["metadata"]["annotations"]["zonewise.dev/dependency"] == "afterok:prepare"
    assert job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "high"
    template = job["spec"]["template"]
    assert template["metadata"]["annotations"] == {"kueue.x-k8s.io/podset-required-topology": "rack"}
    assert template["spec"]["nodeSelector"] == {"pool": "a"}
    [container] = template["spec"]["containers"]
    assert container["command"] == ["/zonewise/start", "x", "y"]
    assert container["workingDir"] == "/work"
    assert {"name": "A", "value": "1"} in container["env"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in template["spec"]["volumes"]
    }


# --- the start script


def started(request: JobRequest, index: int, directory: Path) -> str:
    """Return the output of a script that the start script runs in the pod with an index."""
    script = directory / "script"
    script.write_text('#!/bin/sh\necho "$SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT $SLURM_NODEID $*"\n')
    script.chmod(0o755)
    code = start_script(request).replace("/zonewise/script", str(script))
    environ = {"PATH": "/usr/bin:/bin", "JOB_COMPLETION_INDEX": str(index)}
    command = ["sh", "-c", code, "start", "x", "y z"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environ, cwd=directory)
    assert result.stderr == ""
    return result.stdout


@pytest.mark.parametrize(("array", "index", "element"), [("0-3", 2, 2), ("1,3,5-7", 3, 6), ("10-30:10", 0, 10)])
def test_an_element_of_an_array(array: str, index: int, element: int, tmp_path: Path) -> None:
    request = JobRequest("a", "i", "q", array=parse_array(array))
    assert request.array is not None
    assert started(request, index, tmp_path) == f"{element} {len(request.array.indexes)}  x y z\n"


def test_one_of_several_pods(tmp_path: Path) -> None:
    assert started(TRAIN, 3, tmp_path) == "  3 x y z\n"


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    request = JobRequest("a", "i", "q", array=parse_array("5-9"), output_file="out of %x-%a.$HOME.txt")
    assert started(request, 1, tmp_path) == ""
    assert (tmp_path / "out of a-6.$HOME.txt").read_text().startswith("6 5")


# --- MPI

MPI = TRAIN._replace(pods=3, mpi=True, ssh_keys="keys")
_STAND_INS = {
    "sshd": 'echo "sshd $*"',
    "ssh": "exit 1",
    "ssh-keygen": '[ "$1" = -y ] && echo public || true',
    "ssh-keyscan": 'echo "$5" >>asked; [ "$(grep -c "$5" asked)" -gt 1 ] && echo "$5 ssh-ed25519 key"',
    "getent": 'echo "user:x:0:0::$PWD/home:/bin/sh"',
}
"""Stand-ins for programs of the image. The sshd of a host responds to the second ssh-keyscan."""


def run_mpi(directory: Path, index: int, *, request: JobRequest = MPI, missing: str = "") -> tuple[int, str, str]:
    """Run the start script of a pod in a directory; return its exit status, output and error output."""
    programs = {**_STAND_INS, "sleep": ":"}
    for name in programs.keys() - {missing}:
        (directory / name).write_text(f"#!/bin/sh\n{programs[name]}\n")
        (directory / name).chmod(0o755)
    for name in ("grep", "cut", "id", "cat", "mkdir", "chmod", "cp"):
        (directory / name).symlink_to(shutil.which(name) or name)
    [config_map, *_] = job_objects(request, '#!/bin/sh\necho "runs $* on $HYDRA_IFACE"; exit 3\n')
    for name, text in config_map["data"].items():
        for path in ("/zonewise-ssh", "/zonewise", "/tmp/sshd", "/run/sshd"):
            text = text.replace(f"{path} ", f"{directory}{path} ").replace(f"{path}/", f"{directory}/")
        (directory / name).write_text(text.replace("/proc/net/route", "route").replace(":/usr/sbin:/sbin", ""))
        (directory / name).chmod(0o755)
    (directory / "route").write_text("Iface\tDestination\tGateway\nnet1\t000A0A0A\t0\neth0\t00000000\t0100000A\n")
    (directory / "ssh-privatekey").write_text("private")
    environ = {"PATH": str(directory), "JOB_COMPLETION_INDEX": str(index), "HOME": "/nonexistent"}
    command = ["/bin/sh", str(directory / "start"), "x"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, cwd=directory)
    return result.returncode, result.stdout, result.stderr


def test_a_worker_of_mpi_runs_sshd(tmp_path: Path) -> None:
    status, out, err = run_mpi(tmp_path, 2)
    assert (status, err) == (0, "")
    assert out.startswith("sshd -D -e -p 2222 -h ")
    assert not (tmp_path / "asked").exists()


def test_the_first_pod_of_mpi_waits_for_sshd_in_all_pods_and_runs_the_script(tmp_path: Path) -> None:
    status, out, err = run_mpi(tmp_path, 0)
    assert (status, err) == (3, "")
    [sshd, script] = out.splitlines()
    assert sshd.startswith("sshd -e -p 2222 -h ")
    assert script == "runs x on eth0"
    hosts = [f"train-{index}.train" for index in range(3)]
    assert (tmp_path / "asked").read_text().split() == [host for host in hosts for _ in range(2)]


@pytest.mark.parametrize("keys", ["", "keys"])
def test_ssh_connects_to_the_port_of_sshd(tmp_path: Path, keys: str) -> None:
    """Keys may also be those of the image. The home directory is that of the user database."""
    run_mpi(tmp_path, 1, request=MPI._replace(ssh_keys=keys))
    directory = tmp_path / "home/.ssh"
    config = (directory / "config").read_text().splitlines()
    assert {"Host *", "Port 2222", "StrictHostKeyChecking no"} < set(config)
    assert ("IdentityFile ~/.ssh/id_zonewise" in config) is bool(keys)
    assert (directory / "config").stat().st_mode & 0o777 == 0o600
    assert (directory / "authorized_keys").exists() is bool(keys)


def test_the_error_names_a_program_that_the_image_lacks(tmp_path: Path) -> None:
    assert run_mpi(tmp_path, 0, missing="ssh-keyscan") == (127, "", "--mpi: the image has no ssh-keyscan\n")


def test_open_mpi_does_not_shorten_host_names() -> None:
    [container] = objects(MPI)["Job"]["spec"]["template"]["spec"]["containers"]
    variables = {entry["name"]: entry["value"] for entry in container["env"]}
    assert variables["OMPI_MCA_orte_keep_fqdn_hostnames"] == variables["PRTE_MCA_prte_keep_fqdn_hostnames"] == "true"
    assert variables["OMPI_ALLOW_RUN_AS_ROOT"] == variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"


@pytest.mark.parametrize(
    ("pods", "at_once", "text"),
    [(1, "", "1 pod of 8 cpu"), (4, "", "4 pods, each 8 cpu"), (4, ", 2 at once", "4 pods, 2 at once, each 8 cpu")],
)
def test_the_text_for_the_requests_of_pods(pods: int, at_once: str, text: str) -> None:
    assert pods_text(pods, "8 cpu", at_once) == text


@pytest.mark.parametrize(("pods", "text"), [(1, "1 pod without requests"), (3, "3 pods, 2 at once, without requests")])
def test_pods_may_request_nothing(pods: int, text: str) -> None:
    assert pods_text(pods, "", ", 2 at once" if pods > 1 else "") == text
