"""The requests of a job as a value, derived from sbatch's options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.cli.command import CommandError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from zonewise_scheduler.client.submit.sbatch_values import JobArray

GPU = "nvidia.com/gpu"
"""The resource for GPUs, unless --gpu-resource names another one."""
MAX_NAME = 52
"""Maximum characters of a Job's name: the names and hostnames of its pods append a dash and the index, and are limited
to 63."""
MAX_PODS = 100_000
"""Maximum parallelism of an Indexed Job (pkg/apis/batch/validation/validation.go maxParallelismForIndexedJob)."""
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(_LABEL)
_CLAIM_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
"""apimachinery pkg/util/validation IsDNS1123Subdomain."""
_PATH_SUFFIX = re.compile(r"\.(?:sh|bash|sbatch|slurm|job|py)$")


class JobRequest(NamedTuple):
    """A job to be submitted."""

    name: str
    image: str
    queue: str
    pods: int = 1
    tasks_per_pod: int = 1
    cpus: int = 1
    """CPUs of each pod."""
    memory: int | None = None
    """Bytes of each pod; None if the job sets no memory."""
    devices: Mapping[str, int] = {}
    """Devices of each pod, by resource."""
    walltime: float | None = None
    """Seconds of each pod; None for no limit."""
    begin: str = ""
    """The earliest start, as an RFC 3339 time; "" for any."""
    array: JobArray | None = None
    dependency: str = ""
    working_directory: str = ""
    output_file: str = ""
    environment: Mapping[str, str] = {}
    requeue: bool = False
    mpi: bool = False
    ssh_keys: str = ""
    """The name of a Secret of the type kubernetes.io/ssh-auth."""
    node_selector: Mapping[str, str] = {}
    priority_class: str = ""
    topology: str = ""
    """The label of a topology level if all pods must be in one domain of it."""
    volumes: tuple[tuple[str, str], ...] = ()
    """PersistentVolumeClaims with their mount paths."""
    arguments: tuple[str, ...] = ()
    """Arguments of the script."""
    gpus: int = 0
    """GPUs of each pod; the devices include them."""


def job_request(options: Namespace, script_path: str, environ: Mapping[str, str]) -> JobRequest:
    """Return the job request for options merged from the script and the command line. Raises CommandError."""
    pods, tasks = _pods_and_tasks(options)
    if pods > MAX_PODS:
        raise CommandError(f"{pods} pods are more than the {MAX_PODS} that a Job may have: check -N and -n")
    array: JobArray | None = options.array
    if array is not None and pods > 1:
        raise CommandError(f"--array with {pods} pods: each element of an array is one pod; remove -N and -n")
    if options.mpi and (pods < 2 or array is not None):
        raise CommandError("--mpi needs several pods: set -N or --nodes to at least 2, and remove --array")
    image = options.image or environ.get("ZONEWISE_IMAGE", "")
    if not image:
        raise CommandError("no image: name the container image with --image or $ZONEWISE_IMAGE")
    cpus = (options.cpus_per_task or 1) * tasks
    devices = pod_devices(options, pods, tasks)
    gpus = devices.get(options.gpu_resource, 0)
    return JobRequest(
        _job_name(options, script_path, pods),
        image,
        options.partition or environ.get("ZONEWISE_QUEUE", "") or "default",
        pods,
        tasks,
        cpus,
        _memory(options, cpus, gpus),
        devices,
        options.time or None,
        options.begin or "",
        array,
        options.dependency or "",
        options.chdir or "",
        options.output_file or "",
        _environment(options.export or (), environ),
        bool(options.requeue),
        options.mpi,
        options.ssh_secret,
        _pairs(options.node_selector, "--node-selector"),
        options.priority_class,
        options.topology,
        tuple(_volume(text) for text in options.pvc),
        tuple(options.arguments),
        gpus,
    )


def _pods_and_tasks(options: Namespace) -> tuple[int, int]:
    """Return the number of pods, and the number of tasks in each."""
    nodes, tasks, tasks_per_node = options.nodes, options.ntasks, options.ntasks_per_node
    if tasks is None:
        return nodes or 1, tasks_per_node or 1
    if nodes is None:
        nodes = tasks if tasks_per_node is None else -(-tasks // tasks_per_node)
    if tasks % nodes:
        raise CommandError(f"-n {tasks} tasks cannot be spread evenly over {nodes} pods: all pods of a Job are alike")
    each = tasks // nodes
    if tasks_per_node is not None and each > tasks_per_node:
        raise CommandError(f"-n {tasks} tasks on {nodes} pods are more than --ntasks-per-node {tasks_per_node} allows")
    return nodes, each


def pod_devices(options: Namespace, pods: int, tasks: int) -> dict[str, int]:
    """Return the devices of each pod, by resource; `tasks` is the number of tasks in a pod. Raises CommandError."""
    devices: dict[str, int] = {}
    named_devices: Mapping[str, int] = options.gres or {}
    for name, number in named_devices.items():
        devices[options.gpu_resource if name == "gpu" else name] = number
    unknown = next((name for name in devices if "/" not in name), "")
    if unknown:
        raise CommandError(
            f"--gres {unknown}: use the resource name of the nodes, such as rdma/hca; only gpu has a short form"
        )
    counts = {"--gpus-per-node": options.gpus_per_node}
    counts["--gpus-per-task"] = None if options.gpus_per_task is None else options.gpus_per_task * tasks
    if options.gpus is not None:
        if options.gpus % pods:
            raise CommandError(f"--gpus: {options.gpus} is not a multiple of {pods} pods; use --gpus-per-node")
        counts["--gpus"] = options.gpus // pods
    counts["--gres"] = devices.get(options.gpu_resource)
    named = {flag: number for flag, number in counts.items() if number is not None}
    if len(set(named.values())) > 1:
        texts = " and ".join(f"{flag} ({number} of each pod)" for flag, number in named.items())
        raise CommandError(f"{texts} differ: set the GPUs only once")
    if named:
        devices[options.gpu_resource] = next(iter(named.values()))
    return devices


def _memory(options: Namespace, cpus: int, gpus: int) -> int | None:
    named = [name for name in ("mem", "mem_per_cpu", "mem_per_gpu") if getattr(options, name) is not None]
    if len(named) > 1:
        raise CommandError(" and ".join(f"--{name.replace('_', '-')}" for name in named) + ": set the memory only once")
    if options.mem_per_gpu is not None and not gpus:
        raise CommandError("--mem-per-gpu needs GPUs: set them with --gpus, --gpus-per-node or --gres")
    if options.mem_per_cpu is not None:
        return options.mem_per_cpu * cpus
    return options.mem_per_gpu * gpus if options.mem_per_gpu is not None else options.mem


def _job_name(options: Namespace, script_path: str, pods: int) -> str:
    """Return a valid Job name derived from -J or the script: "My_Job.sh" becomes "my-job"."""
    text: str = options.job_name or _PATH_SUFFIX.sub("", script_path.replace("\\", "/").rpartition("/")[2])
    if script_path == "-" and not options.job_name:
        text = "batch"
    name = re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9-]", "-", text.lower()))[:MAX_NAME].strip("-")
    if not _NAME.fullmatch(name):
        raise CommandError(f"{text!r} cannot become the name of a Job: choose a name with -J")
    if pods > 1 and name[0].isdecimal():  # apimachinery pkg/util/validation IsDNS1035Label
        raise CommandError(
            f"{text!r}: the name of a job with several pods must begin with a letter: choose a name with -J"
        )
    return name


def _environment(texts: list[str] | tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for part in (part for text in texts for part in text.split(",")):
        name, equals, value = part.partition("=")
        if name == "ALL" and not equals:
            raise CommandError(
                "--export ALL: the environment of this machine has no meaning in a container: list the variables"
            )
        if name in {"NONE", "NIL"} and not equals:
            continue
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise CommandError(f"--export: {name!r} is not a variable name")
        if not equals and name not in environ:
            raise CommandError(f"--export: {name} is not set here: write {name}=VALUE")
        variables[name] = value if equals else environ[name]
    return variables


def _pairs(texts: list[str], flag: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CommandError(f"{flag}: {text!r} is not of the form KEY=VALUE")
        pairs[key] = value
    return pairs


def _volume(text: str) -> tuple[str, str]:
    claim, colon, path = text.partition(":")
    if not colon or not path.startswith("/") or not _CLAIM_NAME.fullmatch(claim):
        raise CommandError(f"--pvc: {text!r} is not of the form CLAIM:/PATH")
    return claim, path
