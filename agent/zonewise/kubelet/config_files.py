"""The kubelet's configuration from its files: the file of --config, merged with the drop-ins of --config-dir.

The merge is that of cmd/kubelet/app/server.go mergeKubeletConfigurations(). The kubelet's command-line flags override
both and are in no file. A changed file takes effect only after the kubelet's restart; /configz has the configuration in
force.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from zonewise.kubelet import files
from zonewise.kubelet.config import KubeletConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_KIND = ("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration")
_DROP_IN = ".conf"


class ConfigFiles:
    """A configuration file, with the directory of its drop-ins, if any."""

    def __init__(self, path: str, drop_ins: str = "") -> None:
        self._path = path
        self._drop_ins = drop_ins

    @property
    def origin(self) -> str:
        """Return the paths, for messages."""
        return f"{self._path} and {self._drop_ins}/" if self._drop_ins else self._path

    def signature(self) -> object | None:
        """Return a value that differs when any of the files changed; None if only reading shows it."""
        try:
            signatures = [(path, files.signature(path)) for path in self._paths()]
        except OSError:
            return None
        return None if any(signature is None for _, signature in signatures) else tuple(signatures)

    def read(self) -> Mapping[str, object]:
        """Return the merged document. Raises KubeletConfigError even for a single bad file: no kubelet
        starts with it.
        """
        merged: Mapping[str, object] = {}
        try:
            for path in self._paths():
                merged = merge(merged, parse_document(files.read(path).content, path))
        except OSError as error:
            raise KubeletConfigError(f"{error.filename}: cannot be read: {error.strerror}") from error
        return merged

    def _paths(self) -> Iterator[str]:
        yield self._path
        if self._drop_ins:
            yield from _drop_ins(self._drop_ins)


def parse_document(content: bytes, path: str) -> Mapping[str, object]:
    """Return the fields of one YAML or JSON file; raise KubeletConfigError if it is not a KubeletConfiguration."""
    try:
        document = _decoded(content)
    except (ValueError, RecursionError) as error:
        raise KubeletConfigError(f"{path}: neither YAML nor JSON: {' '.join(str(error).split())[:200]}") from error
    fields = _fields(document)
    if fields is None:
        raise KubeletConfigError(f"{path}: {'is empty' if document is None else 'holds no fields'}")
    if (fields.get("apiVersion"), fields.get("kind")) != _KIND:
        actual = f"{fields.get('apiVersion')!r}, kind: {fields.get('kind')!r}"
        raise KubeletConfigError(f"{path}: apiVersion: {actual}: must be {_KIND[0]}, {_KIND[1]}")
    return fields


def merge(base: Mapping[str, object], patch: Mapping[str, object]) -> Mapping[str, object]:
    """Return a document with another one merged in: a JSON merge patch (RFC 7386).

    Objects are merged by name, null removes a name, and any other value, including a list, replaces the old one.
    """
    merged = dict(base)
    for name, value in patch.items():
        inner = _fields(value)
        if inner is not None:
            merged[name] = merge(_fields(merged.get(name)) or {}, inner)
        elif value is not None:
            merged[name] = value
        else:
            merged.pop(name, None)
    return merged


def _fields(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def _decoded(content: bytes) -> object:
    text = content.decode()
    if text.lstrip().startswith("{"):
        return json.loads(text)  # JSON allows tabs as white space; YAML does not
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _drop_ins(directory: str) -> Iterator[str]:
    """Yield the drop-ins in the order of Go's filepath.WalkDir: by name, with a directory's files at the position of
    its name.
    """
    with os.scandir(directory) as listing:
        entries = sorted(listing, key=lambda entry: os.fsencode(entry.name))
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _drop_ins(entry.path)
        elif entry.name.endswith(_DROP_IN):
            yield entry.path
