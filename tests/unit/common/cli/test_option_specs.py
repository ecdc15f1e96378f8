"""The options of a parser as values."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace

from zonewise_common.cli.command import Command
from zonewise_common.cli.option_specs import OptionSpec, command_specs, option_specs


def test_options() -> None:
    parser = ArgumentParser(add_help=False)
    parser.add_argument("script", metavar="SCRIPT", help="a script")
    group = parser.add_argument_group("job")
    group.add_argument("-a", "--array", metavar="RANGE", help="0-15, at once: %%8")
    group.add_argument("--color", choices=("auto", "never"), default="auto", help="default: %(default)s")
    group.add_argument("--hidden", help=SUPPRESS)
    group.add_argument("-w", "--watch", action="store_true")
    script, array, color, watch = option_specs(parser)
    assert script.takes_file
    assert array == OptionSpec(("-a", "--array"), "RANGE", (), "0-15, at once: %8", "job")
    assert (color.metavar, color.choices, color.help) == ("auto|never", ("auto", "never"), "default: auto")
    assert (watch.metavar, watch.help) == ("", "")


def _run(arguments: Namespace) -> int:
    return 0


def test_commands() -> None:
    def add_arguments(parser: ArgumentParser) -> None:
        parser.epilog = "Status 0: done;\n   1: not."

    [spec] = command_specs({"show": Command("show it", add_arguments, _run)}, "prog")
    assert (spec.name, spec.usage, spec.epilog) == ("show", "prog show [-h]", "Status 0: done; 1: not.")


def test_options_of_subcommands() -> None:
    """Subcommand options follow the subcommand; options common to several subcommands appear once."""
    parser = ArgumentParser()
    commands = parser.add_subparsers(metavar="try|lint")
    for name in ("try", "lint"):
        subparser = commands.add_parser(name, description=f"{name} it.")
        subparser.add_argument("file", metavar="FILE", help="a file")
    subparser.add_argument("--strict", action="store_true", help="no warnings")
    choice, about, file, strict = option_specs(parser)
    assert (choice.metavar, choice.choices, choice.help) == ("try|lint", ("try", "lint"), "try: try it. lint: lint it.")
    assert (about.flags, file.takes_file, strict.flags) == (("-h", "--help"), True, ("--strict",))
