"""The file with the device plugin's configuration, as mounted from a ConfigMap.

A ConfigMap may contain several configurations. Its mounted directory is accepted too. The rule of the plugin's config
manager then selects one (cmd/config-manager, updateConfigName):

- With the Node's label nvidia.com/device-plugin.config, the configuration that the label names.
- Without the label, the one with a configured name.
- Without both, "default", or else the only one.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from zonewise.gfd.device_plugin_config import DevicePluginConfigError, parse_device_plugin_config
from zonewise.gfd.types import DMI_PRODUCT, NO_DEVICE_PLUGIN_CONFIG, DevicePluginConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.machine.files import Files

_DEFAULT = "default"


class DevicePluginConfigFile:
    """Reads the configuration, and keeps the last good one while the file is damaged."""

    def __init__(
        self,
        files: Files,
        path: str,
        name: str = "",
        mig_strategy: str = "",
        machine_type_file: str = "",
        *,
        selected: Callable[[], str | None] = lambda: "",
    ) -> None:
        """Read the file at a path, or the file `name` in the directory at the path; an empty path means no file.

        `mig_strategy` and `machine_type_file` override the values in the file. `selected` returns the name that the
        Node selects, which takes precedence over `name`; "" if the Node has none, None if that is unknown.
        """
        self._machine_type_file = machine_type_file
        self._files = files
        self._path = path
        self._name = name
        self._selected = selected
        self._mig_strategy = mig_strategy
        self._last: DevicePluginConfig | None = None
        self._parsed: tuple[bytes, DevicePluginConfig] | None = None

    def read(self) -> tuple[DevicePluginConfig | None, tuple[str, ...]]:
        """Return the configuration and the problems with it; never raises.

        The configuration is None if a file is configured and has never been good: how GPUs are shared is then unknown.
        """
        try:
            config = self._parse(self._content())
        except (OSError, DevicePluginConfigError) as error:
            reason = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
            effect = "GFD's labels are left out" if self._last is None else "its last valid content remains in force"
            return self._last, (f"{self._path}: {reason}; {effect}",)
        if self._mig_strategy:
            config = config._replace(mig_strategy=self._mig_strategy)
        path = self._machine_type_file or config.machine_type_file
        if path in {"", DMI_PRODUCT}:
            self._last = config
            return config, ()
        machine_type, problems = self._machine_type(path)
        self._last = config._replace(machine_type=machine_type)
        return self._last, problems

    def _machine_type(self, path: str) -> tuple[str, tuple[str, ...]]:
        """Return the content of the file with the machine type (internal/lm/machine-type.go), and the problem."""
        try:
            return self._files.read(path).decode(errors="replace").strip(), ()
        except OSError as error:
            return "", (f"{path}: cannot be read: {error.strerror}; nvidia.com/gpu.machine is unknown",)

    def _parse(self, content: bytes | None) -> DevicePluginConfig:
        if content is None:
            return NO_DEVICE_PLUGIN_CONFIG
        if self._parsed is None or self._parsed[0] != content:
            self._parsed = content, parse_device_plugin_config(content)
        return self._parsed[1]

    def _content(self) -> bytes | None:
        if not self._path:
            return None
        try:
            return self._files.read(self._path)
        except OSError as error:
            if error.errno != errno.EISDIR:
                raise
        return self._files.read(f"{self._path}/{self._choose()}")

    def _choose(self) -> str:
        names = sorted(name for name in self._files.names(self._path) if not name.startswith("."))
        selected = self._selected()
        if selected is None:
            raise DevicePluginConfigError("the configuration that the Node selects cannot be read")
        by_name = selected or self._name
        name = by_name or _DEFAULT
        if name in names:
            return name
        if len(names) == 1 and not by_name:
            return names[0]
        listed = ", ".join(names) or "nothing"
        raise DevicePluginConfigError(f'the directory contains no configuration "{name}", but {listed}')
