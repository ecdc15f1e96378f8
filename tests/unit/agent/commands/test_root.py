"""Commands read the same files of a captured machine, whether it is a directory or an archive."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

from zonewise.commands.root import local_features, open_files
from zonewise_common.cli.command import CommandError

if TYPE_CHECKING:
    from pathlib import Path

FEATURES = "etc/kubernetes/node-feature-discovery/features.d"


def test_an_archive_has_the_feature_files_of_its_directory(tmp_path: Path) -> None:
    """`zonewise capture` leaves feature files out, but an archive by other means may contain them."""
    machine = tmp_path / "machine"
    (machine / "sys").mkdir(parents=True)
    (machine / FEATURES).mkdir(parents=True)
    (machine / FEATURES / "site").write_text("site.rack=r7\n")
    with tarfile.open(tmp_path / "machine.tar", "w") as tar:
        tar.add(machine, "machine")
    features = local_features(open_files(str(machine)))
    assert features.features == {"site.rack": "r7"}
    assert local_features(open_files(str(tmp_path / "machine.tar"))) == features


def test_a_machine_without_feature_files_has_no_problem(tmp_path: Path) -> None:
    """Most machines have none."""
    (tmp_path / "sys").mkdir()
    features = local_features(open_files(str(tmp_path)))
    assert (features.features, features.labels, features.problems) == ({}, {}, ())


def test_an_absent_root_is_an_error_of_the_command(tmp_path: Path) -> None:
    """The message names the root."""
    with pytest.raises(CommandError, match="absent: no such file or directory"):
        open_files(str(tmp_path / "absent"))
