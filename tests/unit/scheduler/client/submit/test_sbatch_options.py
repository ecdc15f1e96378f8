"""sbatch's options: the command line overrides the script, and options without a meaning cause a message."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import pytest

from zonewise_common.cli.command import CommandError
from zonewise_scheduler.client.submit.batch_script import read_script
from zonewise_scheduler.client.submit.sbatch_options import (
    PASSED_OVER,
    REJECTED,
    add_sbatch_options,
    add_unsupported_options,
    merged_options,
    parse_directives,
)


def directives(*lines: str, notes: list[str] | None = None) -> Namespace:
    content = "\n".join(["#!/bin/sh", *(f"#SBATCH {line}" for line in lines), ""])
    taken = [] if notes is None else notes
    return parse_directives(read_script(content, "a.sh"), "a.sh", taken.append)


def test_the_command_line_overrides_the_script() -> None:
    parser = ArgumentParser()
    add_sbatch_options(parser, namespace=True)
    merged = merged_options(directives("-N 4", "-c 2"), parser.parse_args(["-N", "8"]))
    assert (merged.nodes, merged.cpus_per_task, merged.time) == (8, 2, None)


def test_n_is_a_number_of_tasks_or_a_namespace() -> None:
    parser = ArgumentParser()
    add_sbatch_options(parser, namespace=True)
    parser.add_argument("--namespace", default="")
    assert parser.parse_args(["-n", "64"]).ntasks == 64
    both = parser.parse_args(["-n", "team-a", "-n", "4"])
    assert (both.namespace, both.ntasks) == ("team-a", 4)
    assert directives("-n 64").ntasks == 64


def test_several_lines_are_read_together() -> None:
    options = directives("--nodes=2 --gres=gpu:8", "-t 90", "-o out-%a.txt", "--export=A=1", "--export=B=2")
    assert (options.nodes, options.gres, options.time) == (2, {"gpu": 8}, 5400.0)
    assert (options.output_file, options.export) == ("out-%a.txt", ["A=1", "B=2"])


def test_a_begin_time_is_written_in_utc_with_four_digits_of_the_year() -> None:
    assert directives("-b 0999-12-24T08:00+01:00").begin == "0999-12-24T07:00:00Z"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-N two", r"a.sh: line 2: #SBATCH -N two: argument -N/--nodes: 'two' is not a positive whole number"),
        ("--frobnicate", "a.sh: line 2: #SBATCH --frobnicate: unrecognized arguments: --frobnicate"),
        ("--exclusive", "a.sh: line 2: #SBATCH --exclusive: --exclusive is not supported: request all CPUs"),
        ("--exclusive=user", "--exclusive is not supported"),
        ("-w node[1-4]", "-w is not supported: select the node by label"),
        ("-d afterok", "'afterok' is not a dependency, such as afterok:JOB"),
        ("-b 9999-12-31T23:59-01:00", "'9999-12-31T23:59-01:00' is not in the years 1 to 9999 of UTC"),
        ("-d after:a", "'after:a' is not a dependency"),
        ("--gpus=h100:8", "the type of a GPU is a label of the node here"),
        ("--gpus-per-node", "expected one argument"),
    ],
)
def test_mistakes_name_the_line(line: str, message: str) -> None:
    with pytest.raises(CommandError, match=message.replace("[", r"\[")):
        directives(line)


def test_options_without_effect_are_ignored_with_a_note() -> None:
    notes: list[str] = []
    options = directives("--mail-type=END -A project", "-N 2", notes=notes)
    assert options.nodes == 2
    assert [note.partition(":")[0] for note in notes] == ["a.sh", "a.sh"]
    assert "-A has no effect: the LocalQueue" in notes[1]


def test_each_option_without_a_meaning_has_a_message() -> None:
    for names in [*PASSED_OVER, *REJECTED]:
        for flag in names.split():
            notes: list[str] = []
            parser = ArgumentParser(exit_on_error=False)
            add_unsupported_options(parser, notes.append)
            values = ["x"] if flag not in {"-s", "--oversubscribe", "-k", "--no-kill", "-H", "--hold", "-W", "--wait",
                                           "--get-user-env"} else []  # fmt: skip
            if names in PASSED_OVER:
                parser.parse_args([flag, *values])
                assert notes
            else:
                with pytest.raises(CommandError, match="is not supported"):
                    parser.parse_args([flag, *values])
