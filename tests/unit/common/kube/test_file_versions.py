"""Versions of files: any replacement changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.file_versions import file_versions

if TYPE_CHECKING:
    from pathlib import Path


def test_a_replaced_file_of_equal_size_has_another_version(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b")]
    names = [str(file) for file in files]
    assert file_versions(names) == ()
    for file in files:
        file.write_text("1")
    old = file_versions(names)
    assert len(old) == 2
    (tmp_path / "new").write_text("2")
    (tmp_path / "new").rename(files[1])
    assert file_versions(names)[0] == old[0]
    assert file_versions(names)[1] != old[1]
