"""The arguments of the pods of a sweep mean the same as those of the command."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.cli.command import CommandError
from zonewise_scheduler.commands import simulate
from zonewise_scheduler.commands.part_arguments import input_files, part_arguments
from zonewise_scheduler.simulator.sweep.indexed_job import MESSAGE_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal
    from pathlib import Path

OF_A_PART = (
    "policy", "compare", "reserve_after", "exact", "whole_nodes", "jobs", "load", "seed", "repeat", "loads",
    "start_latency", "rate", "release_latency", "grace", "deadlines",
)  # fmt: skip


def parsed(*arguments: str) -> Namespace:
    parser = ArgumentParser()
    simulate.add_arguments(parser)
    return parser.parse_args(arguments)


def in_a_pod(arguments: Sequence[str]) -> Namespace:
    command, *rest = arguments
    assert command == "simulate"
    return parsed(*rest)


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--policy", "easy", "--compare", "greedy,depth-4", "--seed", "3"],
        ["--reserve-after", "never"],
        ["--reserve-after", "1.1d", "--release-latency", "500ms", "--grace", "30"],
        ["--start-latency", "0.25-1.5s", "--rate", "0.5/7", "--no-deadlines"],
        ["--start-latency", "10ms", "--deadlines", "--exact", "--whole-nodes"],
        ["--loads", "0.7,1,123456", "--jobs", "30"],
        ["--load", "0.00001"],
        ["--grace", "3.3333333333333m", "--release-latency", "1.2345678901234h"],
    ],
)
def test_options_match_the_command(options: list[str]) -> None:
    arguments = parsed("hpc", "--nodes", "4x8", "--repeat", "20", *options)
    pod = in_a_pod(part_arguments(arguments))
    assert {name: getattr(pod, name) for name in OF_A_PART} == {name: getattr(arguments, name) for name in OF_A_PART}
    assert (pod.trace, pod.nodes, pod.part) == ("hpc", "4x8", MESSAGE_FILE)
    assert (pod.on_cluster, pod.gather) == (None, None)


def test_the_order_of_the_options_does_not_matter() -> None:
    one = parsed("hpc", "--repeat", "2", "--seed", "1", "--on-cluster")
    other = parsed("--seed", "1", "hpc", "--gather", "--repeat", "2")
    assert part_arguments(one) == part_arguments(other)


def test_files_are_below_their_argument(tmp_path: Path) -> None:
    """Two files with the same name are kept apart; of a directory, only files that hold objects are included."""
    jobs, nodes = tmp_path / "jobs", tmp_path / "nodes.yaml"
    jobs.mkdir()
    (jobs / "nodes.yaml").write_text("a")
    (jobs / "b.json").write_text("b")
    (jobs / "notes.txt").write_text("c")
    nodes.write_text("d")
    arguments = parsed(str(jobs), "--nodes", str(nodes), "--repeat", "2")
    assert input_files(arguments) == {
        "trace/jobs/b.json": b"b", "trace/jobs/nodes.yaml": b"a", "nodes/nodes.yaml": b"d",
    }  # fmt: skip
    pod = in_a_pod(part_arguments(arguments))
    assert (pod.trace, pod.nodes) == ("/inputs/trace/jobs", "/inputs/nodes/nodes.yaml")


def test_files_of_the_image_are_in_its_directory(tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_text("x")
    arguments = parsed(str(tmp_path / "log.gz"), "--repeat", "2", "--inputs", "/traces")
    assert input_files(arguments) == {}
    assert in_a_pod(part_arguments(arguments)).trace == "/traces/log.gz"


def test_the_file_of_a_link_has_the_name_of_the_link(tmp_path: Path) -> None:
    """A store of large files gives them other names."""
    (tmp_path / "7c0ffee").write_text("x")
    (tmp_path / "log.swf").symlink_to("7c0ffee")
    options = [str(tmp_path / "log.swf"), "--repeat", "2"]
    assert input_files(parsed(*options)) == {"trace/log.swf": b"x"}
    assert in_a_pod(part_arguments(parsed(*options))).trace == "/inputs/trace/log.swf"
    assert in_a_pod(part_arguments(parsed(*options, "--inputs", "/traces"))).trace == "/traces/log.swf"


@pytest.mark.parametrize("path", [".", "jobs/..", "../{}"])
def test_a_directory_has_its_own_name(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "a.json").write_text("x")
    arguments = parsed(path.format(tmp_path.name), "--repeat", "2")
    assert input_files(arguments) == {f"trace/{tmp_path.name}/a.json": b"x"}
    assert in_a_pod(part_arguments(arguments)).trace == f"/inputs/trace/{tmp_path.name}"


def test_a_directory_with_the_name_of_short_nodes_is_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "4x8").mkdir()
    arguments = parsed("hpc", "--nodes", "4x8", "--repeat", "2")
    assert input_files(arguments) == {}
    assert in_a_pod(part_arguments(arguments)).nodes == "4x8"


def test_a_directory_without_input_files(tmp_path: Path) -> None:
    arguments = parsed(str(tmp_path), "--repeat", "2")
    with pytest.raises(CommandError, match=r"it contains no file that ends with"):
        input_files(arguments)


@given(st.decimals(0, 99_999, places=3) | st.decimals(0, 9, places=13), st.sampled_from(["", "ms", "s", "m", "h", "d"]))
def test_durations_match_the_command_exactly(number: Decimal, unit: str) -> None:
    arguments = parsed("hpc", "--repeat", "2", "--grace", f"{number:f}{unit}")
    assert in_a_pod(part_arguments(arguments)).grace == arguments.grace
