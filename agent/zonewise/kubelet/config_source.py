"""The kubelet's configuration, read again and again; what was read last holds until something better is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise.kubelet.config import ConfigError, parse_config
from zonewise.kubelet.config_files import ConfigFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise.kubelet.model import KubeletConfig


class ConfigPlace(Protocol):
    """Where a configuration stands."""

    @property
    def origin(self) -> str:
        """Return the place, for people."""
        ...

    def signature(self) -> object | None:
        """Return what differs when the configuration changed; None where only reading tells."""
        ...

    def read(self) -> Mapping[str, object]:
        """Return the document; raise ConfigError."""
        ...


class ConfigReading(NamedTuple):
    """What is known of the configuration."""

    config: KubeletConfig | None
    """What was last read well; None where nothing ever was."""
    problem: str | None
    """Why the last reading failed, and what is used instead."""
    origin: str


class ConfigSource:
    """The configuration of one kubelet."""

    def __init__(self, place: ConfigPlace) -> None:
        self._place = place
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
        origin = self._place.origin
        try:
            return ConfigReading(parse_config(self._place.read(), place=origin), None, origin)
        except ConfigError as error:
            used = "what it was before is used" if before is not None else "the kubelet's policies are unknown"
            return ConfigReading(before, f"{error}; {used}", origin)


def open_config(
    place: str, *, drop_ins: str = "", ca: str = "", token: str = "", server_name: str = ""
) -> ConfigSource:
    """Return the source for a place that is a file, with the directory of its drop-ins if any, or a URL of /configz.

    `ca` and `token` are the ServiceAccount's own where they are not given. Raises ConfigError for an unusable URL.
    """
    if "://" not in place:
        return ConfigSource(ConfigFiles(place, drop_ins))
    # loads the TLS stack, which readers of files do not need
    from zonewise.kubelet.configz import SERVICE_ACCOUNT, Configz

    return ConfigSource(
        Configz(place, ca or f"{SERVICE_ACCOUNT}/ca.crt", token or f"{SERVICE_ACCOUNT}/token", server_name)
    )
