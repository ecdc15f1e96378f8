"""Writes each misprediction to a file that `zonewise scheduler --replay` reads."""

from __future__ import annotations

import logging
import os
import re
import time
from typing import TYPE_CHECKING

from zonewise_scheduler.nodes.assumed.replay_case import case_json

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.assumed.types import Misprediction

log = logging.getLogger(__name__)

_SUFFIX, _OLD_SUFFIX = ".misprediction.json", ".miss.json"


class MispredictionFiles:
    """A directory with the newest mispredictions."""

    def __init__(self, directory: str, max_files: int) -> None:
        """Create the directory if it does not exist. Raises OSError if that fails."""
        os.makedirs(directory, exist_ok=True)
        self._directory, self._max_files = directory, max_files

    def write(self, misprediction: Misprediction) -> None:
        """Write a file and delete the oldest ones; log an OSError."""
        # a node name may be almost as long as the longest file name
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(misprediction.at))  # sorts by time
        name = re.sub("[^A-Za-z0-9.-]+", "-", f"{stamp}-{misprediction.node[:128]}-{misprediction.uid[:36]}")
        path = os.path.join(self._directory, f"{name}{_SUFFIX}")
        try:
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(case_json(misprediction))
            os.replace(f"{path}.new", path)
            self._delete_oldest()
        except OSError as error:
            log.warning("mispredictionDir: %s: %s", path, error.strerror)

    def _delete_oldest(self) -> None:
        files = sorted(name for name in os.listdir(self._directory) if name.endswith((_SUFFIX, _OLD_SUFFIX)))
        for name in files[: -self._max_files]:
            os.unlink(os.path.join(self._directory, name))
