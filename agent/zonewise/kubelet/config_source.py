"""The kubelet's configuration, read again and again; what was read last holds until something better is read."""

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
    """Where a configuration stands."""

    @property
    def origin(self) -> str:
        """Return the place, for people; where there are several, that of what was read last."""
        ...

    def signature(self) -> object | None:
        """Return what differs when the configuration changed; None where only reading tells."""
        ...

    def read(self) -> Mapping[str, object]:
        """Return the document; raise ConfigError."""
        ...


class ConfigWithFallback:
    """A place, and another one that counts as long as the first has never told anything.

    Once it has, a failure is one: what it said before is nearer to the truth than the other place. So it is with
    /configz and the kubelet's file, which lacks what came by flags, and may be of the kubelet's next start.
    """

    def __init__(self, primary: ConfigReader, fallback: ConfigReader) -> None:
        self._first = primary
        self._second = fallback
        self._first_told = False
        self._said = ""
        self.origin = primary.origin

    def signature(self) -> object | None:
        """Return None: only asking tells whether the first place tells something now."""
        return None

    def read(self) -> Mapping[str, object]:
        """Return the document of the first place, or of the second. Raises ConfigError where both fail."""
        self.origin = self._first.origin
        try:
            found = self._first.read()
        except KubeletConfigError as error:
            if self._first_told:
                raise
            return self._read_second(error)
        self._first_told = True
        return found

    def _read_second(self, reason: KubeletConfigError) -> Mapping[str, object]:
        try:
            found = self._second.read()
        except KubeletConfigError as error:
            raise KubeletConfigError(f"{reason}; and {error}") from error
        if str(reason) != self._said:
            self._said = str(reason)
            log.info("the kubelet's configuration is read from %s: %s", self._second.origin, reason)
        self.origin = self._second.origin
        return found


class ConfigReading(NamedTuple):
    """What is known of the configuration."""

    config: KubeletConfig | None
    """What was last read well; None where nothing ever was."""
    problem: str | None
    """Why the last reading failed, and what is used instead."""
    origin: str


class ConfigSource:
    """The configuration of one kubelet."""

    def __init__(self, reader: ConfigReader) -> None:
        self._place = reader
        self._signature: object | None = None
        self._last: ConfigReading | None = None

    def changed(self) -> bool:
        """Tell whether reading may give another result; files are looked at, not read, and a URL is not asked."""
        signature = self._place.signature()
        return self._last is None or signature is None or signature != self._signature

    def read(self, *, refresh: bool = True) -> ConfigReading:
        """Return what is known, reading anew where something changed.

        Without `refresh`, what was known is returned as it is: after events that tell of no restart of the kubelet,
        without which its configuration stays as it was.
        """
        if self._last is not None and not (refresh and self.changed()):
            return self._last
        # before the content: what changes in between is then read once more, and never missed
        self._signature = self._place.signature()
        self._last = self._read(None if self._last is None else self._last.config)
        return self._last

    def _read(self, before: KubeletConfig | None) -> ConfigReading:
        try:
            document = self._place.read()
            return ConfigReading(parse_config(document, origin=self._place.origin), None, self._place.origin)
        except KubeletConfigError as error:
            used = "what it was before is used" if before is not None else "the kubelet's policies are unknown"
            return ConfigReading(before, f"{error}; {used}", self._place.origin)


def open_config(
    location: str, *, drop_ins: str = "", ca: str = "", token: str = "", server_name: str = "", fallback: str = ""
) -> ConfigSource:
    """Return the source for a place that is a file, with the directory of its drop-ins if any, or a URL of /configz.

    `ca` and `token` are the ServiceAccount's own where they are not given; `instead` is a file that is read as long as
    the URL never told anything. Raises ConfigError for an unusable URL.
    """
    if "://" not in location:
        return ConfigSource(ConfigFiles(location, drop_ins))
    # loads the TLS stack, which readers of files do not need
    from zonewise.kubelet.configz import SERVICE_ACCOUNT, Configz

    served = Configz(location, ca or f"{SERVICE_ACCOUNT}/ca.crt", token or f"{SERVICE_ACCOUNT}/token", server_name)
    return ConfigSource(ConfigWithFallback(served, ConfigFiles(fallback, drop_ins)) if fallback else served)
