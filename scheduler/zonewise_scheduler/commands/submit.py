"""`zonewise submit`: submits a batch script with sbatch's options as a native Job."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command, CommandError
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_common.cli.output_format import JSON, NAME, YAML, render_document
from zonewise_scheduler.client.cluster.session import add_cluster_arguments
from zonewise_scheduler.client.submit.sbatch_options import add_sbatch_options, add_unsupported_options

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from zonewise_scheduler.client.submit.batch_script import BatchScript
    from zonewise_scheduler.client.submit.job_request import JobRequest

_FORMATS = (JSON, YAML, NAME)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "Options on #SBATCH lines are used, and options on the command line override them. A ConfigMap holds the "
        "script, which runs once in each pod; with --mpi it runs only in the first one. The option -o FILE means "
        "--output-file, unless FILE is json, yaml or name. Status 0: submitted, or printed; 2: "
        "unusable arguments or script, or no API server."
    )
    parser.add_argument("script", metavar="SCRIPT", nargs="?", default="", help='batch script (default, or "-": '
        "standard input)")  # fmt: skip
    parser.add_argument("arguments", metavar="ARGUMENT", nargs="*", default=[], help="arguments of the script, "
        "directly after it")  # fmt: skip
    add_sbatch_options(parser, namespace=True)
    add_unsupported_options(parser, _note)
    _add_job_options(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="create nothing; with -o yaml or -o json, print the objects"
    )
    parser.add_argument("-o", "--output", metavar="FORMAT|FILE", default="", help="json or yaml prints the objects, "
        "name prints only the name of the Job")  # fmt: skip
    parser.add_argument("--parsable", action="store_true", help="print only the name of the job, without its kind")
    add_cluster_arguments(parser, all_namespaces=False, read_api=False, short_namespace=False)


def run(arguments: Namespace) -> int:
    """Print or create the objects of a job. Raises CommandError."""
    from zonewise_scheduler.client.submit.job_objects import job_objects
    from zonewise_scheduler.client.submit.script_notes import script_notes

    if arguments.output and arguments.output not in _FORMATS:
        arguments.output_file, arguments.output = arguments.output, ""
    request, script = _request(arguments)
    if request.memory is None:
        _note("without --mem a pod is not Guaranteed: the kubelet aligns its CPUs and GPUs to no zone")
    if request.walltime is None:
        _note("without -t the end of the job is unknown: jobs that wait for it have no start time")
    for note in script_notes(request, script.content):
        _note(note)
    if arguments.dry_run:
        _print(request, job_objects(request, script.content), arguments, created=False)
        return 0
    from zonewise_scheduler.client.cluster.session import open_session
    from zonewise_scheduler.client.submit.submission import submit

    with open_session(arguments) as session:
        request, objects = submit(session, request, script.content, _note)
    _print(request, objects, arguments, created=True)
    return 0


COMMAND = Command("submit a batch script as a Job, with sbatch's options", add_arguments, run)


def _add_job_options(parser: ArgumentParser) -> None:
    from zonewise_scheduler.client.submit.job_request import GPU

    add = parser.add_argument_group("job, with Kubernetes' options").add_argument
    add(
        "--image",
        metavar="IMAGE",
        default="",
        help="container image, which must include a shell (default: $ZONEWISE_IMAGE)",
    )
    add("--gpu-resource", metavar="NAME", default=GPU, help=f"resource that --gpus requests (default: {GPU})")
    add(
        "--pvc",
        metavar="CLAIM:PATH",
        action="append",
        default=[],
        help="PersistentVolumeClaim to mount, and the path in the container",
    )
    add("--node-selector", metavar="KEY=VALUE", action="append", default=[], help="run only on nodes with this label")
    add("--topology", metavar="LABEL", default="", help="level of the queue's Topology, such as a rack; all pods go to "
        "one domain of it")  # fmt: skip
    add("--priority-class", metavar="NAME", default="", help="WorkloadPriorityClass of the job")
    add("--mpi", action="store_true", help="run the script in the first pod and sshd in the others; `mpirun` reads its "
        "hosts from a host file")  # fmt: skip
    add("--ssh-secret", metavar="NAME", default="", help="Secret of type kubernetes.io/ssh-auth for --mpi (default: "
        "the keys in the image)")  # fmt: skip


def _request(arguments: Namespace) -> tuple[JobRequest, BatchScript]:
    from zonewise_scheduler.client.submit.batch_script import wrapped_script
    from zonewise_scheduler.client.submit.job_request import job_request
    from zonewise_scheduler.client.submit.sbatch_options import merged_options, parse_directives

    path = arguments.script or "-"
    if arguments.wrap is not None and arguments.script:
        raise CommandError(f"--wrap replaces the script: remove {arguments.script}, or --wrap")
    script = _read(path) if arguments.wrap is None else wrapped_script(arguments.wrap)
    shown = "standard input" if path == "-" else path
    options = merged_options(parse_directives(script, shown, _note), arguments)
    if options.wrap is not None and arguments.wrap is None:
        raise CommandError(f"{shown}: --wrap belongs on the command line")
    name = "wrap" if arguments.wrap is not None else path
    return job_request(options, name, os.environ), script


def _read(path: str) -> BatchScript:
    from zonewise_scheduler.client.submit.batch_script import read_script

    try:
        if path == "-":
            content = sys.stdin.read()
        else:
            with open(path, encoding="utf-8", newline="") as file:
                content = file.read()
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: not a text file: {error}") from error
    return read_script(content.replace("\r\n", "\n"), "standard input" if path == "-" else path)


def _print(request: JobRequest, objects: list[dict[str, object]], arguments: Namespace, *, created: bool) -> None:
    from zonewise_scheduler.client.submit.job_objects import summary

    if arguments.output == YAML:
        text = "---\n".join(render_document(obj, YAML) for obj in objects)
    elif arguments.output == JSON:
        text = render_document({"apiVersion": "v1", "kind": "List", "items": objects}, JSON)
    elif arguments.parsable or arguments.output == NAME:
        text = f"{'' if arguments.parsable else 'job.batch/'}{request.name}\n"
    else:
        end = "" if created else " (dry run)"
        text = f"Submitted batch job {request.name} to queue {request.queue}: {summary(request)}{end}\n"
    write(text, STANDARD_OUTPUT)


def _note(text: str) -> None:
    sys.stderr.write(f"zonewise: note: {text}\n")
