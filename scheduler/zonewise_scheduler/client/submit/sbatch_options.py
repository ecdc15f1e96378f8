"""The options of sbatch that are meaningful in a cluster, for the command line and for #SBATCH lines.

There are two kinds of other options. Some change nothing and are ignored with a note. Others would change what the job
does; they are rejected with a description of the alternative.
"""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn, TypeVar

from zonewise_common.cli.argument_types import checked
from zonewise_common.cli.command import CommandError
from zonewise_scheduler.client.submit.sbatch_values import (
    parse_array,
    parse_begin_time,
    parse_count,
    parse_gpus,
    parse_gres,
    parse_memory,
    parse_nodes,
    parse_time_limit,
)
from zonewise_scheduler.quota.api.job_dependency import parse_dependency

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.client.submit.batch_script import BatchScript

T = TypeVar("T")

PASSED_OVER = {
    "-A --account": "the LocalQueue (-p) decides whose quota counts",
    "--mail-type": "no mail is sent; to wait for the end, use `kubectl wait --for condition=complete job/NAME`",
    "--mail-user": "no mail is sent",
    "--comment": "a Job has no field for it",
    "-e --error": "standard output and standard error go to one log: `kubectl logs job/NAME`",
    "-s --oversubscribe": "pods share a node as far as their requests fit",
    "--signal": "a pod gets SIGTERM before its end",
    "--open-mode": "each pod has a log of its own",
    "-k --no-kill": "the Job's backoffLimit decides",
    "--get-user-env": "the image determines the environment",
    "--distribution": "the queue's topology determines where ranks run",
    "-m": "the queue's topology determines where ranks run",
}
"""Options that change nothing, with the reason."""

REJECTED = {
    "--exclusive": "request all CPUs and GPUs of a node with -c and --gpus-per-node",
    "-w --nodelist": "select the node by label with --node-selector kubernetes.io/hostname=NODE",
    "-x --exclude": "select nodes by label with --node-selector",
    "-C --constraint": "select nodes by label with --node-selector KEY=VALUE",
    "-H --hold": "submit the job, then run `zonewise hold JOB`",
    "--deadline": "a job cannot have a deadline; -t limits its run time",
    "-q --qos": "set the priority with --priority-class",
    "--nice": "set the priority with --priority-class",
    "--priority": "set the priority with --priority-class",
    "--reservation": "the queue reserves a start for the first job that waits; an administrator reserves a time with a "
    "queue for --begin",
    "-L --licenses": "an administrator can add an AdmissionCheck for licences to the ClusterQueue",
    "-M --clusters": "select the cluster with --context",
    "--uid": "the image determines the user",
    "--gid": "the image determines the group",
    "--gpu-bind": "each container sees only its own GPUs",
    "--cpu-bind": "the kubelet binds CPUs; `zonewise explain POD` shows them",
    "--mem-bind": "the kubelet binds memory; `zonewise explain POD` shows its zones",
    "-B --extra-node-info": "the kubelet's Topology Manager aligns CPUs and GPUs",
    "--sockets-per-node": "the kubelet's Topology Manager aligns CPUs and GPUs",
    "--switches": "select a level of the topology with --topology LABEL",
    "--bb": "volumes are PersistentVolumeClaims; mount one with --pvc NAME:PATH",
    "--tmp": "each container has local storage of its own",
    "-W --wait": "to wait for the end, use `kubectl wait --for condition=complete job/NAME`",
}
"""Options that would change what a job does, with their replacement."""
_FLAGS = frozenset({"--exclusive", "-s", "--oversubscribe", "-k", "--no-kill", "-H", "--hold", "-W", "--wait",
                    "--get-user-env"})  # fmt: skip
"""Those options of both kinds that take no value."""


def add_sbatch_options(parser: ArgumentParser, *, namespace: bool = False) -> None:
    """Declare the options of a job under sbatch's names; the default of each is None, for unset.

    `namespace`: -n with a name means kubectl's --namespace.
    """
    add = parser.add_argument_group("job, with sbatch's options").add_argument
    add("-J", "--job-name", metavar="NAME", help="name of the job (default: the name of the script)")
    add("-p", "--partition", "--queue", metavar="QUEUE", help="LocalQueue of the job (default: $ZONEWISE_QUEUE, else "
        "`default`)")  # fmt: skip
    add("-N", "--nodes", type=checked(parse_nodes), metavar="NUMBER", help="number of pods, each on a node or a part "
        "of one (default: 1)")  # fmt: skip
    add(*([] if namespace else ["-n"]), "--ntasks", type=checked(parse_count), metavar="NUMBER", help="number of tasks "
        "of all pods together; without -N and --ntasks-per-node, each task is a pod")  # fmt: skip
    if namespace:
        add(
            "-n",
            action=_TasksOrNamespace,
            metavar="NUMBER|NAME",
            help="a number means --ntasks, a name means --namespace",
        )
    add(
        "--ntasks-per-node",
        type=checked(parse_count),
        metavar="NUMBER",
        help="number of tasks of each pod (default: 1)",
    )
    add(
        "-c",
        "--cpus-per-task",
        type=checked(parse_count),
        metavar="NUMBER",
        help="number of CPUs of each task (default: 1)",
    )
    add("--mem", type=checked(parse_memory), metavar="SIZE", help="memory of each pod: 64G, 512M, 4096 (MiB)")
    add("--mem-per-cpu", type=checked(parse_memory), metavar="SIZE", help="memory of each CPU of a pod")
    add("--mem-per-gpu", type=checked(parse_memory), metavar="SIZE", help="memory of each GPU of a pod")
    add("-G", "--gpus", type=checked(parse_gpus), metavar="NUMBER", help="GPUs of all pods together")
    add("--gpus-per-node", type=checked(parse_gpus), metavar="NUMBER", help="GPUs of each pod")
    add("--gpus-per-task", type=checked(parse_gpus), metavar="NUMBER", help="GPUs of each task")
    add("--gres", type=checked(parse_gres), metavar="NAME:NUMBER,...", help="devices of each pod: gpu:8, rdma/hca:1")
    add("-t", "--time", type=checked(_time_limit), metavar="TIME", help="walltime, after which the job is ended: 2h, "
        "90 (minutes), 1:30:00, 1-12 (days-hours)")  # fmt: skip
    add("-b", "--begin", type=checked(_begin), metavar="TIME", help="earliest start: now+2hours, 16:00, tomorrow, "
        "2026-12-24T08:00")  # fmt: skip
    add(
        "-a",
        "--array",
        type=checked(parse_array),
        metavar="INDEXES",
        help="run one pod for each index: 0-15, 1,3,5-7, 0-99%%8",
    )
    add("-d", "--dependency", type=checked(_dependency), metavar="afterok:JOB", help="queue the job once these Jobs "
        "have succeeded; also afterany, afternotok")  # fmt: skip
    add("-D", "--chdir", metavar="PATH", help="working directory in the container")
    add("--output-file", metavar="FILE", help="file in the container for standard output and error; %%x: job name, "
        "%%a: array index, %%n: number of the pod (default: the pod's log)")  # fmt: skip
    add("--export", action="append", metavar="NAME=VALUE,...", help="environment variables of the script; NAME without "
        "a value exports its value from here")  # fmt: skip
    add("--requeue", action="store_true", default=None, help="restart a pod that fails, up to 6 times")
    add("--no-requeue", dest="requeue", action="store_false", default=None, help=argparse.SUPPRESS)
    add("--wrap", metavar="COMMAND", help="run this shell command instead of a script")


def add_unsupported_options(parser: ArgumentParser, note: Callable[[str], object]) -> None:
    """Declare sbatch's options without a meaning here, hidden in the help; `note` gets each ignored option."""
    for names, advice in PASSED_OVER.items():
        _add_unsupported(parser, names, lambda name, advice=advice: note(f"{name} has no effect: {advice}"))
    for names, advice in REJECTED.items():
        _add_unsupported(parser, names, lambda name, advice=advice: _reject(name, advice))


def parse_directives(script: BatchScript, path: str, note: Callable[[str], object]) -> Namespace:
    """Return the options in the #SBATCH lines of a script. Raises CommandError with the file and line."""
    parser = _DirectiveParser(prog="#SBATCH", add_help=False, allow_abbrev=False)
    add_sbatch_options(parser)
    parser.add_argument("-o", "--output", dest="output_file", metavar="FILE")
    add_unsupported_options(parser, lambda text: note(f"{path}: #SBATCH {text}"))
    lines = sorted(set(script.lines))
    merged = Namespace()
    for line in lines:
        words = [word for word, number in zip(script.words, script.lines, strict=True) if number == line]
        try:
            parser.parse_args(words, merged)
        except CommandError as error:
            raise CommandError(f"{path}: line {line}: #SBATCH {' '.join(words)}: {error}") from None
    return merged if lines else parser.parse_args([], merged)


def merged_options(directives: Namespace, arguments: Namespace) -> Namespace:
    """Return the options of the script, overridden by the command line as in sbatch."""
    options = {name: value for name, value in vars(arguments).items() if value is not None}
    return Namespace(**{**vars(directives), **vars(arguments), **{
        name: options.get(name, value) for name, value in vars(directives).items()
    }})  # fmt: skip


class _DirectiveParser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandError(message)


class _TasksOrNamespace(argparse.Action):
    """Sets `ntasks` to a number, and `namespace` to anything else."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: object, option_string: str | None = None
    ) -> None:
        del option_string
        text = str(values)
        if not text.isdecimal():
            namespace.namespace = text
            return
        try:
            namespace.ntasks = parse_count(text)
        except ValueError as error:
            parser.error(f"argument -n: {error}")


class _Unsupported(argparse.Action):
    """Calls a function with the option's name."""

    def __init__(self, *, report: Callable[[str], object], **settings: object) -> None:
        super().__init__(**settings)  # pyright: ignore[reportArgumentType] -- argparse's own settings
        self._report = report

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: object, option_string: str | None = None
    ) -> None:
        del parser, namespace, values
        self._report(option_string or "")


def _add_unsupported(parser: ArgumentParser, names: str, report: Callable[[str], object]) -> None:
    flags = names.split()
    values = "?" if "--exclusive" in flags else 0 if _FLAGS.intersection(flags) else 1
    parser.add_argument(
        *flags, action=_Unsupported, report=report, nargs=values, dest=argparse.SUPPRESS, help=argparse.SUPPRESS
    )


def _reject(name: str, advice: str) -> NoReturn:
    raise CommandError(f"{name} is not supported: {advice}")


def _time_limit(text: str) -> float:
    """Return seconds; 0 for unlimited."""
    return parse_time_limit(text) or 0.0


def _begin(text: str) -> str:
    """Return a begin time in UTC, as the annotation has it."""
    moment = parse_begin_time(text, datetime.now())
    try:
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not in the years 1 to 9999 of UTC") from None


def _dependency(text: str) -> str:
    """Return the text if it is valid."""
    parse_dependency(text)
    return text
