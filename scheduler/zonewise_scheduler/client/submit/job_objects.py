"""The objects of a submitted job: a Job, a ConfigMap with its script, and a headless Service if it has several pods.

    ConfigMap  NAME   script       the script as it is
                      start        what the container runs: variables, the element of an array, the script
                      hosts        with several pods: a line for each, "NAME-0.NAME slots=8", as Open MPI reads it
                      hosts.hydra  the same for MPICH and Intel MPI: "NAME-0.NAME:8"
    Service    NAME   with several pods: gives each the name NAME-<index>.NAME
    Job        NAME   Indexed, held until the queue starts it

activeDeadlineSeconds of the Job declares and enforces the walltime. That of an array applies to each pod, so the
annotation zonewise.dev/max-run-seconds declares the walltime of the whole array.
"""

from __future__ import annotations

import shlex
from math import ceil
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.quantity import format_binary_quantity
from zonewise_common.kube.resources import CONFIG_MAPS, JOBS
from zonewise_scheduler.client.jobs.job_labels import (
    JOB_NAME_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    REQUIRED_TOPOLOGY,
)
from zonewise_scheduler.quota.api.begin_time import BEGIN_ANNOTATION
from zonewise_scheduler.quota.api.declared_walltime import MAX_RUN_ANNOTATION
from zonewise_scheduler.quota.api.job_dependency import DEPENDENCY_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.client.submit.job_request import JobRequest
    from zonewise_scheduler.client.submit.sbatch_values import JobArray

Json = dict[str, Any]

MOUNT = "/zonewise"
SSH_MOUNT = "/zonewise-ssh"
SSH_PORT = 2222
"""The port of sshd, which needs no privilege."""
MAX_VARIABLE = 120_000
"""Maximum bytes of a variable: Linux starts no program with a variable of 128 KiB (execve(2), MAX_ARG_STRLEN)."""
_RESTARTS = 6
_MANAGED_BY = "zonewise-submit"
_VOLUME = "script"


def job_objects(request: JobRequest, script: str) -> list[Json]:
    """Return the objects of a job, the Job last."""
    objects: list[Json] = [_config_map(request, script)]
    if request.pods > 1:
        objects.append(_service(request))
    return [*objects, _job(request)]


def hosts(request: JobRequest) -> list[str]:
    """Return the host names of the pods, as their Service defines them."""
    return [f"{request.name}-{index}.{request.name}" for index in range(request.pods)]


def summary(request: JobRequest) -> str:
    """Return the requests of a job as text: "4 pods, each 8 cpu, 64Gi memory, 2 nvidia.com/gpu"."""
    pods, array = _completions(request), request.array
    at_once = f", {array.limit} at once" if array is not None and array.limit < pods else ""
    amounts = ", ".join(f"{amount} {name}" for name, amount in pod_requests(request).items())
    return pods_text(pods, amounts, at_once)


def pods_text(pods: int, amounts: str, at_once: str = "") -> str:
    """Return "4 pods, each 8 cpu", "1 pod of 8 cpu" or "1 pod without requests".

    `at_once`, after a comma, states how many pods run at once.
    """
    if not amounts:
        return "1 pod without requests" if pods == 1 else f"{pods} pods{at_once}, without requests"
    return f"1 pod of {amounts}" if pods == 1 else f"{pods} pods{at_once}, each {amounts}"


def _job(request: JobRequest) -> Json:
    array = request.array
    annotations: Json = {}
    if request.walltime is not None and array is not None:
        annotations[MAX_RUN_ANNOTATION] = str(ceil(request.walltime * _waves(array)))
    if request.begin:
        annotations[BEGIN_ANNOTATION] = request.begin
    if request.dependency:
        annotations[DEPENDENCY_ANNOTATION] = request.dependency
    labels = {QUEUE_LABEL: request.queue, "app.kubernetes.io/managed-by": _MANAGED_BY}
    if request.priority_class:
        labels[PRIORITY_CLASS_LABEL] = request.priority_class
    metadata: Json = {"name": request.name, "labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    spec: Json = {
        "suspend": True,
        "completionMode": "Indexed",
        "completions": _completions(request),
        "parallelism": request.pods if array is None else array.limit,
    }
    restarts = _RESTARTS if request.requeue else 0
    spec |= {"backoffLimit": restarts} if array is None else {"backoffLimitPerIndex": restarts}
    # a pod that is drained or preempted has not failed
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    spec["podFailurePolicy"] = {"rules": [ignored]}
    if request.mpi:
        spec["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    if request.walltime is not None and array is None:
        spec["activeDeadlineSeconds"] = ceil(request.walltime)
    spec["template"] = _template(request)
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec}


def _waves(array: JobArray) -> int:
    """Return the number of waves in which the pods of an array run."""
    return -(-len(array.indexes) // array.limit)


def _completions(request: JobRequest) -> int:
    return request.pods if request.array is None else len(request.array.indexes)


def _template(request: JobRequest) -> Json:
    mounts: list[Json] = [{"name": _VOLUME, "mountPath": MOUNT, "readOnly": True}]
    volumes: list[Json] = [{"name": _VOLUME, "configMap": {"name": request.name, "defaultMode": 0o555}}]
    for number, (claim, path) in enumerate(request.volumes):
        mounts.append({"name": f"claim-{number}", "mountPath": path})
        volumes.append({"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim}})
    if request.ssh_keys:
        mounts.append({"name": "ssh", "mountPath": SSH_MOUNT, "readOnly": True})
        volumes.append({"name": "ssh", "secret": {"secretName": request.ssh_keys, "defaultMode": 0o400}})
    requests = pod_requests(request)
    container: Json = {
        "name": "main",
        "image": request.image,
        "command": [f"{MOUNT}/start", *map(_literal, request.arguments)],
        "env": [{"name": name, "value": _literal(value)} for name, value in variables(request)],
        "resources": {"requests": requests, "limits": dict(requests)},
        "volumeMounts": mounts,
    }
    if request.working_directory:
        container["workingDir"] = request.working_directory
    spec: Json = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    if request.pods > 1:
        spec["subdomain"] = request.name
    if request.node_selector:
        spec["nodeSelector"] = dict(request.node_selector)
    if request.walltime is not None and request.array is not None:
        spec["activeDeadlineSeconds"] = ceil(request.walltime)
    template: Json = {"spec": spec}
    if request.topology:
        template = {"metadata": {"annotations": {REQUIRED_TOPOLOGY: request.topology}}, **template}
    return template


def _literal(text: str) -> str:
    """Return a text escaped against the kubelet's expansion (third_party/forked/golang/expansion/expand.go)."""
    return text.replace("$", "$$")


def pod_requests(request: JobRequest) -> dict[str, str]:
    """Return the quantities that each pod requests, by resource."""
    requests = {"cpu": str(request.cpus)}
    if request.memory is not None:
        requests["memory"] = format_binary_quantity(request.memory)
    return requests | {name: str(number) for name, number in request.devices.items()}


def variables(request: JobRequest) -> Iterator[tuple[str, str]]:
    """Yield the variables of the container. SLURM_NTASKS and SLURM_PROCID are not among them.

    Frameworks that find these expect srun (for example Lightning's SLURMEnvironment). A list of hosts that is too long
    for a variable is omitted: it is also in a file.
    """
    yield "SLURM_JOB_NAME", request.name
    yield "SLURM_CPUS_PER_TASK", str(request.cpus // request.tasks_per_pod)
    yield "SLURM_JOB_NUM_NODES", str(request.pods)
    if request.gpus:
        yield "SLURM_GPUS_ON_NODE", str(request.gpus)
    if request.pods > 1:
        host_list = ",".join(hosts(request))
        if len(host_list) <= MAX_VARIABLE:
            yield "SLURM_JOB_NODELIST", host_list
        yield "MASTER_ADDR", hosts(request)[0]
        yield "OMPI_MCA_orte_default_hostfile", f"{MOUNT}/hosts"
        yield "PRTE_MCA_prte_default_hostfile", f"{MOUNT}/hosts"
        yield "HYDRA_HOST_FILE", f"{MOUNT}/hosts.hydra"
        yield "I_MPI_HYDRA_HOST_FILE", f"{MOUNT}/hosts.hydra"
    if request.mpi:
        # Open MPI cuts host names at the first dot, and the Service resolves only the whole name
        yield "OMPI_MCA_orte_keep_fqdn_hostnames", "true"
        yield "PRTE_MCA_prte_keep_fqdn_hostnames", "true"
        # containers run as root, which Open MPI rejects as a mistake
        yield "OMPI_ALLOW_RUN_AS_ROOT", "1"
        yield "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"
    yield from request.environment.items()


def _config_map(request: JobRequest, script: str) -> Json:
    data = {"script": script, "start": start_script(request)}
    if request.pods > 1:
        data["hosts"] = "".join(f"{host} slots={request.tasks_per_pod}\n" for host in hosts(request))
        data["hosts.hydra"] = "".join(f"{host}:{request.tasks_per_pod}\n" for host in hosts(request))
    labels = {"app.kubernetes.io/managed-by": _MANAGED_BY}
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {"name": request.name, "labels": labels},
        "data": data,
    }


def _service(request: JobRequest) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": request.name, "labels": {"app.kubernetes.io/managed-by": _MANAGED_BY}},
        # names resolve before pods are ready, since the pods look each other up when they start
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_NAME_LABEL: request.name},
        },
    }


def start_script(request: JobRequest) -> str:
    """Return the container's start script, in POSIX sh so that every image with a shell can run it."""
    lines = ["#!/bin/sh", "# Sets what sbatch sets, and runs the script with its own interpreter."]
    index = "${JOB_COMPLETION_INDEX:-0}"
    if request.array is None:
        lines.append(f"export SLURM_NODEID={index}")
    else:
        lines += _array_lines(request.array, index)
    if request.output_file:
        lines.append(f"exec >{_output_path(request)} 2>&1")
    if request.mpi:
        lines += _check_lines()
    if request.mpi or request.ssh_keys:
        lines += ["set -e", *_ssh_lines(with_keys=bool(request.ssh_keys))]
    if request.mpi:
        lines += _mpi_lines()
    return "\n".join([*lines, f'exec {MOUNT}/script "$@"', ""])


def _array_lines(array: JobArray, index: str) -> list[str]:
    lines = [f"export SLURM_ARRAY_TASK_ID={index}"]
    if not array.is_plain:
        elements = " ".join(map(str, array.indexes))
        lines = [
            f"number={index}",
            f"for element in {elements}; do",
            '  if [ "$number" -eq 0 ]; then export SLURM_ARRAY_TASK_ID="$element"; break; fi',
            "  number=$((number - 1))",
            "done",
        ]
    return [
        *lines,
        f"export SLURM_ARRAY_TASK_COUNT={len(array.indexes)}",
        f"export SLURM_ARRAY_TASK_MIN={array.indexes[0]}",
        f"export SLURM_ARRAY_TASK_MAX={array.indexes[-1]}",
    ]


def _output_path(request: JobRequest) -> str:
    """Return the path of --output-file as a shell word."""
    patterns = {
        "%x": shlex.quote(request.name),
        "%j": shlex.quote(request.name),
        "%A": shlex.quote(request.name),
        "%a": '"${SLURM_ARRAY_TASK_ID:-0}"',
        "%n": '"${JOB_COMPLETION_INDEX:-0}"',
        "%N": '"$(hostname)"',
        "%%": "%",
    }
    word, rest = "", request.output_file
    while rest:
        pattern = rest[:2]
        if pattern in patterns:
            word, rest = word + patterns[pattern], rest[2:]
        else:
            word, rest = word + shlex.quote(rest[0]), rest[1:]
    return word


def _ssh_lines(*, with_keys: bool) -> list[str]:
    """Return the lines that set up ssh, with the keys of a Secret of the type kubernetes.io/ssh-auth.

    ssh and sshd use the home directory from the user database, whatever $HOME is (OpenSSH, ssh.c main).
    """
    identity = ("IdentityFile ~/.ssh/id_zonewise",) if with_keys else ()
    settings = (*identity, f"Port {SSH_PORT}", "StrictHostKeyChecking no", "UserKnownHostsFile /dev/null",
                "LogLevel ERROR")  # fmt: skip
    keys = (
        f'cp {SSH_MOUNT}/ssh-privatekey "$home/.ssh/id_zonewise"',
        'chmod 600 "$home/.ssh/id_zonewise"',
        'ssh-keygen -y -f "$home/.ssh/id_zonewise" >>"$home/.ssh/authorized_keys"',
        'chmod 600 "$home/.ssh/authorized_keys"',
    )
    return [
        'home=$(getent passwd "$(id -u)" | cut -d: -f6)',
        "home=${home:-$HOME}",
        'mkdir -p "$home/.ssh" && chmod 700 "$home/.ssh"',
        *(keys if with_keys else ()),
        *(f"echo '{line}' >>\"$home/.ssh/config\"" for line in ("Host *", *settings)),
        'chmod 600 "$home/.ssh/config"',
    ]


def _mpi_lines() -> list[str]:
    """Return the lines that run sshd in all pods; pod 0 waits until every sshd responds, then runs the script.

    Pod 0 runs sshd too, since Hydra starts its local processes through ssh as well. Hydra announces the kernel's host
    name, which lacks the Service's name and does not resolve. HYDRA_IFACE therefore selects the interface of the
    default route, and Hydra announces its address.
    """
    options = f"-e -p {SSH_PORT} -h /tmp/sshd/host_key -o PidFile=/tmp/sshd/pid -o StrictModes=no"
    return [
        "mkdir -p /run/sshd 2>/dev/null || true",  # needed if sshd runs as root and separates privileges
        'mkdir -p /tmp/sshd && ssh-keygen -q -t ed25519 -N "" -f /tmp/sshd/host_key',
        "sshd=$(program sshd)",
        f'[ "${{JOB_COMPLETION_INDEX:-0}}" -eq 0 ] || exec "$sshd" -D {options}',
        f'"$sshd" {options}',
        # a pod's name resolves before its image is pulled
        "while read -r host slots; do",
        f'  until ssh-keyscan -t ed25519 -p {SSH_PORT} "$host" 2>/dev/null | grep -q .; do sleep 1; done',
        f"done <{MOUNT}/hosts",
        "while read -r interface destination rest; do",
        '  [ "$destination" != 00000000 ] || export HYDRA_IFACE="$interface" I_MPI_HYDRA_IFACE="$interface"',
        "done </proc/net/route",
    ]


def _check_lines() -> list[str]:
    """Return the lines that end the pod with a message if the image lacks a program."""
    return [
        'program() { PATH="$PATH:/usr/sbin:/sbin"; command -v "$1"; }',
        "for name in sshd ssh ssh-keygen ssh-keyscan getent; do",
        '  (program "$name") >/dev/null || { echo "--mpi: the image has no $name" >&2; exit 127; }',
        "done",
    ]
