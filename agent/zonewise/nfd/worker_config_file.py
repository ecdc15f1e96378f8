"""The file nfd-worker.conf, on the node or mounted from a ConfigMap, and the file of kernel options that it
may name.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from zonewise.machine.collectors.host.kernel_config import kernel_options, unpack_kernel_config
from zonewise.nfd.worker_config import DEFAULT_WORKER_CONFIG, WorkerConfig, WorkerConfigError, parse_worker_config

if TYPE_CHECKING:
    from zonewise.machine.files import Files

WORKER_CONFIG_FILE = "etc/kubernetes/node-feature-discovery/nfd-worker.conf"
"""Path below the root of the machine: the default of nfd-worker -config."""


class WorkerConfigFile:
    """Reads the configuration, and keeps the last good one while the file is damaged."""

    def __init__(self, files: Files, path: str, *, optional: bool) -> None:
        """Set the path of the file; if the file is optional, its absence is not a problem."""
        self._files = files
        self._path = path
        self._optional = optional
        self._last: WorkerConfig | None = None
        self._parsed: tuple[bytes, tuple[WorkerConfig, tuple[str, ...]]] | None = None
        self._options: tuple[bytes, dict[str, str]] | None = None

    def read(self) -> tuple[WorkerConfig | None, tuple[str, ...]]:
        """Return the configuration and the problems with it; never raises.

        The configuration is None if the file is damaged and has never been good: which labels are desired is then
        unknown.
        """
        try:
            config, problems = self._parse(self._files.read(self._path))
            if config.kconfig_file:
                config, problems = self._with_kernel_config(config, problems)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                missing = (
                    ()
                    if self._optional
                    else (f"{self._path}: the file does not exist; the worker's defaults are used",)
                )
                self._last = DEFAULT_WORKER_CONFIG
                return self._last, missing
            return self._damaged(f"cannot be read: {error.strerror}")
        except WorkerConfigError as error:
            return self._damaged(str(error))
        self._last = config
        return config, tuple(f"{self._path}: {problem}" for problem in problems)

    def _parse(self, content: bytes) -> tuple[WorkerConfig, tuple[str, ...]]:
        if self._parsed is None or self._parsed[0] != content:
            self._parsed = content, parse_worker_config(content)
        return self._parsed[1]

    def _damaged(self, reason: str) -> tuple[WorkerConfig | None, tuple[str, ...]]:
        effect = "no labels are written" if self._last is None else "its last valid content remains in force"
        return self._last, (f"{self._path}: {reason}; {effect}",)

    def _with_kernel_config(
        self, config: WorkerConfig, problems: tuple[str, ...]
    ) -> tuple[WorkerConfig, tuple[str, ...]]:
        """Read the kernel options; if that fails, those of the running kernel count, as for the worker
        (parseKconfig).
        """
        path = config.kconfig_file
        try:
            content = self._files.read(path)
            if self._options is None or self._options[0] != content:
                text = unpack_kernel_config(content) if path.endswith(".gz") else content
                self._options = content, kernel_options(text)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            return config, (*problems, f"sources.kernel.kconfigFile: {path} cannot be read: {reason}")
        return config._replace(kernel_config=self._options[1]), problems
