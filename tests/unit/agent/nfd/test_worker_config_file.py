"""The worker's configuration file: absent, damaged while the agent runs, and with kernel options in another file."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from zonewise.machine.files import DirectoryFiles
from zonewise.nfd.worker_config import DEFAULT_WORKER_CONFIG
from zonewise.nfd.worker_config_file import WorkerConfigFile

if TYPE_CHECKING:
    from pathlib import Path


def config_file(path: Path, *, optional: bool = True) -> WorkerConfigFile:
    return WorkerConfigFile(DirectoryFiles("/"), str(path), optional=optional)


def test_absent(tmp_path: Path) -> None:
    """The worker's defaults apply, as in the worker; this is a problem only if the file is a setting."""
    path = tmp_path / "nfd-worker.conf"
    assert config_file(path).read() == (DEFAULT_WORKER_CONFIG, ())
    problem = f"{path}: the file does not exist; the worker's defaults are used"
    assert config_file(path, optional=False).read() == (DEFAULT_WORKER_CONFIG, (problem,))


def test_the_last_good_content_survives_damage(tmp_path: Path) -> None:
    """Without good content, no labels are written, since a worker would not start either."""
    path = tmp_path / "nfd-worker.conf"
    path.write_text("core: 5")
    file = config_file(path)
    assert file.read() == (None, (f"{path}: core: must be a mapping, not '5'; no labels are written",))
    path.write_text("core: {noPublish: true, klog: {v: 1}}")
    good = DEFAULT_WORKER_CONFIG._replace(no_publish=True)
    problem = f"{path}: core.klog is ignored: the settings logLevel and logFormat decide"
    assert file.read() == (good, (problem,))
    path.write_text("core: [")
    config, problems = file.read()
    assert config == good
    assert problems[0].endswith("; its last valid content remains in force")
    path.unlink()
    assert file.read() == (DEFAULT_WORKER_CONFIG, ())


def test_kernel_options_of_another_file(tmp_path: Path) -> None:
    """The file is compressed if its name ends in .gz. If it is unreadable, the running kernel's options apply."""
    text = b'CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C="text"\n'
    options = {"A": "y", "C": "text"}
    path = tmp_path / "nfd-worker.conf"
    (tmp_path / "plain").write_bytes(text)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(text))
    (tmp_path / "damaged.gz").write_bytes(text)
    expected = {
        "plain": (options, ""),
        "packed.gz": (options, ""),
        "damaged.gz": (None, "damaged.gz cannot be read: cannot be unpacked"),
        "absent": (None, "absent cannot be read: No such file or directory"),
    }
    for name, (content, problem) in expected.items():
        path.write_text(f"sources: {{kernel: {{kconfigFile: {tmp_path}/{name}}}}}")
        config, problems = config_file(path).read()
        assert config is not None
        assert config.kernel_config == content
        assert [problem in text for text in problems] == ([True] if problem else [])
