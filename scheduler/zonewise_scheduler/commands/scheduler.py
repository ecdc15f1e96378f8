"""`zonewise scheduler`: serves kube-scheduler as an extender, so that no kubelet rejects a pod."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command, CommandError, require_extra
from zonewise_common.cli.imports import without_collections
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_common.service.options import CONFIG_VARIABLE, PREFIX, SettingsError, read_settings_file
from zonewise_scheduler.extender.settings import DEFAULT_FILE, OPTIONS, read_settings

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Declare an argument for each setting, and for the modes of the command."""
    add = parser.add_argument
    parser.epilog = (
        f"Each setting can also come from the environment ({PREFIX}LISTEN for --listen) or from the file, where its "
        "name is in camelCase (staleAfter, tls.cert). Flags win over the environment, and the environment over the "
        "file."
    )
    add("--extender-only", action="store_true", help="serve kube-scheduler as an extender, and queue nothing")
    add("--replay", metavar="FILE", help="predict the admission in a case of --misprediction-dir again, and compare it "
        "with the kubelet's: status 0 if they agree, 1 if not")  # fmt: skip
    add("--config", metavar="FILE", help=f"settings file (default: ${CONFIG_VARIABLE}, or {DEFAULT_FILE} if it exists)")
    OPTIONS.add_arguments(parser)


def run(arguments: Namespace) -> int:
    """Run until stopped. Raises CommandError."""
    if arguments.replay:
        return _replay(arguments.replay)
    if not arguments.extender_only:
        raise CommandError("--extender-only is required: this version of the command can only serve kube-scheduler")
    with require_extra("scheduler"), without_collections():
        from zonewise_scheduler.extender.main import run_extender
    path = arguments.config or os.environ.get(CONFIG_VARIABLE)
    try:
        content = read_settings_file(path, DEFAULT_FILE)
        return run_extender(read_settings(OPTIONS.flag_values(arguments), os.environ, content, path or DEFAULT_FILE))
    except SettingsError as error:
        raise CommandError(str(error)) from error


def _replay(path: str) -> int:
    from zonewise_scheduler.nodes.assumed.replay_case import CaseError, read_case, replay

    try:
        with open(path, encoding="utf-8") as file:
            case = read_case(file.read())
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror}") from error
    except (CaseError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: not a case of a misprediction: {error}") from error
    verdict = replay(case)
    text = f"kubelet:   {case.reason}: {case.message}\npredicted: {verdict.reason or 'admitted'}\n"
    write(text, STANDARD_OUTPUT)
    return 0 if verdict.reason == case.reason else 1


COMMAND = Command("run the extender through which kube-scheduler respects zones", add_arguments, run)
