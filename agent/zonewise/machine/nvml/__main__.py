"""The child process: `python -m` of this package prints NVML's facts as one line of JSON, and ends."""

from __future__ import annotations

import signal
import sys

from zonewise.machine.nvml.facts_json import to_json
from zonewise.machine.nvml.library import LibraryBackend
from zonewise.machine.nvml.queries import collect_nvml

_LIFE = 60  # seconds; longer than any parent waits


def main() -> None:
    """Query NVML, print the facts."""
    # if the parent dies first, only the default action of the alarm ends a child that is blocked
    signal.alarm(_LIFE)
    sys.stdout.write(to_json(collect_nvml(LibraryBackend())) + "\n")


if __name__ == "__main__":
    main()
