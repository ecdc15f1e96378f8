"""Writes down what was foretold wrongly, each in a file that `zonewise scheduler --replay` takes."""

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

_SUFFIX = ".miss.json"


class MispredictionFiles:
    """A directory that holds the newest of them."""

    def __init__(self, directory: str, max_files: int) -> None:
        """Take the directory, which is made where it is absent; raises OSError where it cannot be written."""
        os.makedirs(directory, exist_ok=True)
        self._directory, self._most = directory, max_files

    def write(self, misprediction: Misprediction) -> None:
        """Write one; what cannot be written is logged."""
        # names of nodes may be almost as long as those of files
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(misprediction.at))  # sorts by time
        name = re.sub("[^A-Za-z0-9.-]+", "-", f"{stamp}-{misprediction.node[:128]}-{misprediction.uid[:36]}")
        path = os.path.join(self._directory, f"{name}{_SUFFIX}")
        try:
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(case_json(misprediction))
            os.replace(f"{path}.new", path)
            self._drop_old()
        except OSError as error:
            log.warning("miss-dir: %s: %s", path, error.strerror)

    def _drop_old(self) -> None:
        files = sorted(name for name in os.listdir(self._directory) if name.endswith(_SUFFIX))
        for name in files[: -self._most]:
            os.unlink(os.path.join(self._directory, name))
