"""`zonewise show`: the hardware of a machine, for people and for programs."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.commands.root import add_root_argument, local_features, open_files
from zonewise.machine.discover import Scanner
from zonewise.machine.files import LIVE_ROOT
from zonewise_common.cli import output
from zonewise_common.cli.command import Command, CommandError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from zonewise.machine.discover import Run, Scan
    from zonewise.machine.files import Files
    from zonewise.machine.model.machine import Machine
    from zonewise.objects.labels import LabelConfig

DEFAULT_FORMAT = "text"
DEFAULT_WIDTH = 100
MIN_WIDTH = 40
MAX_NODE_NAME = 253

_NODE_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAMED = ("text", "svg", "json", "yaml")
"""Formats that contain the names of PCI devices."""
_EXPLAINABLE = ("text", "json", "yaml")


class _Shown(NamedTuple):
    """What a format shows."""

    files: Files
    scan: Scan
    arguments: Namespace

    @property
    def machine(self) -> Machine:
        return self.scan.machine


class _OutputTarget(NamedTuple):
    format: str
    path: str


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_root_argument(parser)
    add = parser.add_argument
    add("-o", "--output", nargs="+", default=[DEFAULT_FORMAT], metavar=("FORMAT", "FILE"),
        help=f"output format, and a file to write to (default: standard output): {', '.join(FORMATS)}")  # fmt: skip
    add("--explain", metavar="PATH", help="show the source of a fact: zones.1.memory, pci.0000:3b:00.0, all; -o json "
        "and -o yaml add it to the machine as the key `sources`")  # fmt: skip
    add(
        "--node-name",
        metavar="NAME",
        help="node name in the objects of -o nrt and -o nodefeature (default: $NODE_NAME, or the hostname)",
    )
    add("--features", type=_groups, default=(), metavar="GROUP,...", help="groups of raw features to add to -o "
        "nodefeature: all, kernel.config, kernel.enabledmodule, network.pods")  # fmt: skip
    add("--nfd-config", metavar="FILE", help="configuration of NFD's worker (nfd-worker.conf), for -o labels and -o "
        "nodefeature")  # fmt: skip
    add("--gfd-config", metavar="FILE", help="configuration of NVIDIA's device plugin with the sharing of GPUs, for -o "
        "labels and -o nodefeature")  # fmt: skip
    add("--width", type=_width, metavar="COLUMNS", help="width of the picture (default: the terminal's width)")
    add(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="use colours in the picture (default: auto)",
    )
    add(
        "--pci-ids",
        metavar="FILE",
        help="file with the names of PCI devices (default: the system's file, if there is one)",
    )
    add("--all-devices", action="store_true", help="list all devices and draw their matrix, including drives (default: "
        "only GPUs and accelerators with network ports)")  # fmt: skip
    add("--ascii", action="store_true", help="draw with ASCII characters only")
    add("--timings", action="store_true", help="print to standard error how long each part of discovery took")


def run(arguments: Namespace) -> int:
    """Scan the machine once and write it in the requested format. Raises CommandError."""
    target = _output_target(arguments.output)
    if arguments.explain is not None and target.format not in _EXPLAINABLE:
        raise CommandError(f"--explain works with -o {', '.join(_EXPLAINABLE)}, not with {target.format}")
    files = open_files(arguments.root)
    scan = Scanner(files, explain=arguments.explain is not None).scan()
    if target.format in _NAMED:
        scan = scan._replace(machine=_with_names(scan.machine, arguments.pci_ids))
    output.write(FORMATS[target.format](_Shown(files, scan, arguments)), target.path)
    if arguments.timings:
        sys.stderr.write("".join(map(_timing, scan.runs)))
    return 0


COMMAND = Command("show the hardware of this machine, or of a captured one", add_arguments, run)


def _output_target(words: list[str]) -> _OutputTarget:
    if words[0] not in FORMATS:
        raise CommandError(f"unknown format {words[0]}: the formats are {', '.join(FORMATS)}")
    if len(words) > 2:
        raise CommandError(f"-o takes a format and at most one file; remove {' '.join(words[2:])}")
    return _OutputTarget(words[0], words[1] if len(words) == 2 else output.STANDARD_OUTPUT)


def _with_names(machine: Machine, path: str | None) -> Machine:
    from zonewise.machine.pci_names import PCI_IDS, read_pci_ids, with_pci_names

    paths = PCI_IDS if path is None else (os.path.abspath(path),)
    text = read_pci_ids(open_files(LIVE_ROOT), paths)
    if path is not None and not text:
        raise CommandError(f"--pci-ids {path}: the file cannot be read, or is empty")
    return with_pci_names(machine, text)


# --- formats


def _text(shown: _Shown) -> str:
    if shown.arguments.explain is not None:
        return _explained(shown)
    from zonewise.render.matrix import render_matrix
    from zonewise.render.problems import render_problems
    from zonewise.render.terminal import render_terminal

    to_file = _output_target(shown.arguments.output).path != output.STANDARD_OUTPUT
    width = shown.arguments.width or _terminal_width()
    colour = _wants_colour(shown.arguments.color, to_file=to_file)
    unicode = not shown.arguments.ascii and (to_file or output.supports_unicode())
    parts = (
        render_terminal(shown.machine, width, colour=colour, unicode=unicode),
        render_matrix(shown.machine, width, everything=shown.arguments.all_devices),
        render_problems(shown.machine, width),
    )
    text = "\n\n".join(part.strip("\n") for part in parts if part) + "\n"
    return text if unicode else text.encode("ascii", "replace").decode("ascii")


def _explained(shown: _Shown) -> str:
    from zonewise.objects.explain import UnknownFact, explain
    from zonewise.objects.machine_json import machine_to_json

    try:
        return explain(machine_to_json(shown.machine), shown.scan.sources, shown.arguments.explain)
    except UnknownFact as error:
        raise CommandError(str(error)) from error


def _document(shown: _Shown) -> dict[str, Any]:
    from zonewise.objects.machine_json import machine_to_json

    document = machine_to_json(shown.machine)
    if shown.arguments.explain is None:
        return document
    from zonewise.objects.explain import UnknownFact, select_sources

    try:
        return machine_to_json(shown.machine, select_sources(document, shown.scan.sources, shown.arguments.explain))
    except UnknownFact as error:
        raise CommandError(str(error)) from error


def _json(shown: _Shown) -> str:
    from zonewise.objects.machine_json import render_json

    return render_json(_document(shown))


def _yaml(shown: _Shown) -> str:
    from zonewise.objects.yaml_text import render_yaml

    return render_yaml(_document(shown))


def _nrt(shown: _Shown) -> str:
    from zonewise.objects.nrt import machine_to_nrt
    from zonewise.objects.yaml_text import render_yaml

    return render_yaml(machine_to_nrt(shown.machine, _node_name(shown)))


def _labels(shown: _Shown) -> str:
    from zonewise.objects.labels import machine_to_labels, render_labels

    return render_labels(machine_to_labels(shown.machine, local_features(shown.files), _label_config(shown.arguments)))


def _node_feature(shown: _Shown) -> str:
    from zonewise.nfd.worker_config import DEFAULT_WORKER_CONFIG
    from zonewise.objects.features import node_features, published_features
    from zonewise.objects.labels import build_labels
    from zonewise.objects.node_feature import node_feature
    from zonewise.objects.yaml_text import render_yaml

    local, config = local_features(shown.files), _label_config(shown.arguments)
    worker = config.worker or DEFAULT_WORKER_CONFIG
    name = _node_name(shown)
    features = node_features(shown.machine, shown.arguments.features, local, worker, name)
    labels = build_labels(shown.machine, features, local, config).values
    return render_yaml(node_feature(name, labels, published_features(features, worker)))


def _label_config(arguments: Namespace) -> LabelConfig:
    from zonewise.gfd.config_files import DevicePluginConfigFile
    from zonewise.nfd.worker_config import DEFAULT_WORKER_CONFIG
    from zonewise.nfd.worker_config_file import WorkerConfigFile
    from zonewise.objects.labels import LabelConfig

    files = open_files(LIVE_ROOT)
    path = os.path.abspath(arguments.gfd_config) if arguments.gfd_config else ""
    device_plugin, problems = DevicePluginConfigFile(files, path).read()
    if problems:
        raise CommandError(problems[0].rpartition(";")[0])
    worker = DEFAULT_WORKER_CONFIG
    if arguments.nfd_config:
        config, problems = WorkerConfigFile(files, os.path.abspath(arguments.nfd_config), optional=False).read()
        if config is None or not os.path.exists(arguments.nfd_config):
            raise CommandError(problems[0].rpartition(";")[0])
        worker = config
        sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return LabelConfig(device_plugin, worker)


def _nccl(shown: _Shown) -> str:
    from zonewise.objects.nccl import machine_to_nccl

    return machine_to_nccl(shown.machine)


def _svg(shown: _Shown) -> str:
    from zonewise.render.svg import render_svg

    return render_svg(shown.machine)


FORMATS: dict[str, Callable[[_Shown], str]] = {
    DEFAULT_FORMAT: _text,
    "svg": _svg,
    "json": _json,
    "yaml": _yaml,
    "nrt": _nrt,
    "labels": _labels,
    "nodefeature": _node_feature,
    "nccl": _nccl,
}


# --- arguments of the formats


def _node_name(shown: _Shown) -> str:
    # it would be the wrong name for another machine's capture
    from_environment = os.environ.get("NODE_NAME") if shown.files.live else None
    # the kubelet registers the hostname in lower case (pkg/util/node, GetHostname)
    name: str | None = shown.arguments.node_name or from_environment or (shown.machine.hostname or "").lower() or None
    if name is None:
        raise CommandError("the machine's hostname is unknown: set the node name with --node-name")
    if len(name) > MAX_NODE_NAME or not re.fullmatch(_NODE_NAME, name):
        raise CommandError(f"{name!r} is not a valid node name (DNS-1123): set the node name with --node-name")
    return name


def _groups(text: str) -> tuple[str, ...]:
    from argparse import ArgumentTypeError

    from zonewise.objects.feature_groups import parse_feature_groups

    try:
        return parse_feature_groups(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def _width(text: str) -> int:
    from argparse import ArgumentTypeError

    if not text.isdecimal() or int(text) < MIN_WIDTH:
        raise ArgumentTypeError(f"{text} is not a number of columns; the smallest is {MIN_WIDTH}")
    return int(text)


def _terminal_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(int(columns), MIN_WIDTH)
    try:
        return max(os.get_terminal_size(sys.stdout.fileno()).columns, MIN_WIDTH)
    except (OSError, ValueError):  # not a terminal, or not a file
        return DEFAULT_WIDTH


def _wants_colour(choice: str, *, to_file: bool) -> bool:
    """Return whether to use colour, by the rules of no-color.org and of terminals."""
    if choice != "auto":
        return choice == "always"
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not to_file and not plain and sys.stdout.isatty()


def _timing(run: Run) -> str:
    detail = f"  {run.detail}" if run.detail else ""
    return f"{run.collector:16} {run.seconds * 1000:9.2f} ms  {run.outcome}{detail}\n"
