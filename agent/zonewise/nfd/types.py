"""Features and labels that files on the node add to those of the hardware."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class LocalLabel(NamedTuple):
    """A label that a line of a feature file sets; its name and value are not validated yet."""

    value: str
    origin: str
    """The file and the line, for messages."""


class LocalFeatures(NamedTuple):
    """The content of feature files, merged. Names are as written in the files."""

    features: Mapping[str, str] = MappingProxyType({})
    """The elements of the raw feature `local.feature`."""
    labels: Mapping[str, LocalLabel] = MappingProxyType({})
    """The elements of the raw feature `local.label`; valid ones become labels."""
    problems: tuple[str, ...] = ()
    """Problems; each is a sentence that begins with the file and, if there is one, the line."""


NO_LOCAL_FEATURES = LocalFeatures()
