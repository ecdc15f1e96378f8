"""Repeated reading of the kubelet's configuration. The last good reading remains in force until a newer one
succeeds.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise.kubelet.config import KubeletConfigError, parse_config
from zonewise.kubelet.config_files import ConfigFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise.kubelet.types import KubeletConfig


log = logging.getLogger(__name__)


class ConfigReader(Protocol):
    """A reader of the configuration at one location."""

    @property
    def origin(self) -> str:
        """Return the location, for messages; if there are several, that of the last reading."""
        ...

    def signature(self) -> object | None:
        """Return a value that differs when the configuration changed; None if only reading shows it."""
        ...

    def read(self) -> Mapping[str, object]:
        """Return the document; raise ConfigError."""
        ...


class ConfigWithFallback:
    """A primary location, and a fallback that is read until the primary has succeeded once.

    After that a failure of the primary raises: its last document is closer to the truth than the fallback. An example
    is /configz with the kubelet's file, which lacks command-line flags and may be that of the kubelet's next start.
    """

    def __init__(self, primary: ConfigReader, fallback: ConfigReader) -> None:
        self._primary = primary
        self._fallback = fallback
        self._primary_succeeded = False
        self._logged_reason = ""
        self.origin = primary.origin

    def signature(self) -> object | None:
        """Return None: only reading shows whether the primary works now."""
        return None

    def read(self) -> Mapping[str, object]:
        """Return the document of the primary or of the fallback. Raises KubeletConfigError if both fail."""
        self.origin = self._primary.origin
        try:
            document = self._primary.read()
        except KubeletConfigError as error:
            if self._primary_succeeded:
                raise
            return self._read_fallback(error)
        self._primary_succeeded = True
        return document

    def _read_fallback(self, reason: KubeletConfigError) -> Mapping[str, object]:
        try:
            document = self._fallback.read()
        except KubeletConfigError as error:
            raise KubeletConfigError(f"{reason}; and {error}") from error
        if str(reason) != self._logged_reason:
            self._logged_reason = str(reason)
            log.info("the kubelet's configuration is read from %s: %s", self._fallback.origin, reason)
        self.origin = self._fallback.origin
        return document


class ConfigReading(NamedTuple):
    """The configuration, and the outcome of the last reading."""

    config: KubeletConfig | None
    """The last good reading; None before the first."""
    problem: str | None
    """Why the last reading failed, and what is used instead."""
    origin: str


class ConfigSource:
    """The configuration of one kubelet."""

    def __init__(self, reader: ConfigReader) -> None:
        self._reader = reader
        self._signature: object | None = None
        self._last: ConfigReading | None = None

    def changed(self) -> bool:
        """Return whether reading may give another result; checks files by stat, and does not request a URL."""
        signature = self._reader.signature()
        return self._last is None or signature is None or signature != self._signature

    def read(self, *, refresh: bool = True) -> ConfigReading:
        """Return the configuration, read again if it changed.

        Without `refresh` the last reading is returned unchanged: a running kubelet does not change its configuration.
        """
        if self._last is not None and not (refresh and self.changed()):
            return self._last
        # taken before the content: a change in between causes one more reading and is never missed
        self._signature = self._reader.signature()
        self._last = self._read(None if self._last is None else self._last.config)
        return self._last

    def _read(self, before: KubeletConfig | None) -> ConfigReading:
        try:
            document = self._reader.read()
            return ConfigReading(parse_config(document, origin=self._reader.origin), None, self._reader.origin)
        except KubeletConfigError as error:
            used = "the last known one is used" if before is not None else "the kubelet's policies are unknown"
            return ConfigReading(before, f"{error}; {used}", self._reader.origin)


def open_config(
    location: str, *, drop_ins: str = "", ca: str = "", token: str = "", server_name: str = "", fallback: str = ""
) -> ConfigSource:
    """Return the source for a location: a file, with the directory of its drop-ins if any, or a URL of /configz.

    `ca` and `token` default to those of the ServiceAccount. `fallback` is a file that is read until the URL has
    succeeded once. Raises KubeletConfigError for an unusable URL.
    """
    if "://" not in location:
        return ConfigSource(ConfigFiles(location, drop_ins))
    # loads the TLS stack, which readers of files do not need
    from zonewise.kubelet.configz import SERVICE_ACCOUNT, Configz

    served = Configz(location, ca or f"{SERVICE_ACCOUNT}/ca.crt", token or f"{SERVICE_ACCOUNT}/token", server_name)
    return ConfigSource(ConfigWithFallback(served, ConfigFiles(fallback, drop_ins)) if fallback else served)
