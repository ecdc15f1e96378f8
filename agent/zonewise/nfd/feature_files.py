"""The directory of feature files (`features.d`), with which programs on a node add features and labels.

The rules are those of NFD's source/local/local.go (getFeaturesFromFiles):

- Directories, and files whose names begin with a dot, are ignored.
- A file of more than 64 KiB is rejected as a whole.
- If names are equal, the last file counts.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from zonewise.nfd.feature_file import parse_feature_file
from zonewise.nfd.types import LocalFeatures, LocalLabel

if TYPE_CHECKING:
    from datetime import datetime

    from zonewise.machine.files import Files

FEATURES_DIRECTORY = "etc/kubernetes/node-feature-discovery/features.d"
"""Path below the root of the machine (featureFilesDir)."""
MAX_FILE_SIZE = 65536
"""Maximum size in bytes (MaxFeatureFileSize)."""


def read_local_features(files: Files, directory: str, now: datetime) -> LocalFeatures:
    """Return the features and labels in the feature files of a directory. Lines with problems are left out; never
    raises.
    """
    try:
        names = sorted(files.names(directory))
    except OSError as error:
        missing = error.errno == errno.ENOENT
        return LocalFeatures(problems=() if missing else (_unreadable(directory, error),))
    features: dict[str, str] = {}
    labels: dict[str, LocalLabel] = {}
    problems: list[str] = []
    for name in names:
        if name.startswith("."):
            continue
        content = _read_file(files, f"{directory}/{name}", now)
        features.update(content.features)
        labels.update(content.labels)
        problems += content.problems
    return LocalFeatures(features, labels, tuple(problems))


def _read_file(files: Files, path: str, now: datetime) -> LocalFeatures:
    try:
        content = files.read(path)
    except OSError as error:
        return LocalFeatures(problems=() if error.errno == errno.EISDIR else (_unreadable(path, error),))
    if len(content) > MAX_FILE_SIZE:
        return LocalFeatures(problems=(f"{_absolute(path)}: ignored, because it has more than {MAX_FILE_SIZE} bytes",))
    return parse_feature_file(content, _absolute(path), now)


def _unreadable(path: str, error: OSError) -> str:
    return f"{_absolute(path)}: cannot be read: {error.strerror}"


def _absolute(path: str) -> str:
    return "/" + path.lstrip("/")
