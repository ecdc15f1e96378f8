"""The kubeconfig of a cluster in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonewise_common.kube.config import Config
from zonewise_sandbox.up.kubeconfig import written_kubeconfig

URL = "http://127.0.0.1:8001"


@pytest.mark.parametrize("name", ["", "config"])
def test_the_file_exists_as_long_as_the_cluster(tmp_path: Path, name: str) -> None:
    """Only its owner can read it; the official client accepts it."""
    with written_kubeconfig(URL, str(tmp_path / name) if name else "") as path:
        assert Config.from_kubeconfig(path).url == URL
        assert Path(path).stat().st_mode & 0o777 == 0o600
    assert not Path(path).exists()


def test_a_file_of_the_user_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("mine")
    with pytest.raises(FileExistsError), written_kubeconfig(URL, str(file)):
        pass
    assert file.read_text() == "mine"


def test_a_file_that_is_removed_meanwhile(tmp_path: Path) -> None:
    with written_kubeconfig(URL, str(tmp_path / "config")) as path:
        Path(path).unlink()
