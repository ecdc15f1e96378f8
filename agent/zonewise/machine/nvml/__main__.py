"""The child process: `python -m` of this package prints NVML's facts as one line of JSON, and exits.

With the argument "events" it prints a line "ADDRESS XID INSTANCE" for each XID, until its parent closes its standard
input. Without MIG the instance is empty.
"""

from __future__ import annotations

import select
import signal
import sys

from zonewise.machine.nvml.backend import NvmlError
from zonewise.machine.nvml.facts_json import to_json
from zonewise.machine.nvml.library import LibraryBackend
from zonewise.machine.nvml.queries import collect_nvml

EVENTS = "events"
_LIFE = 60  # seconds; longer than any parent waits


def main() -> None:
    """Query NVML and print the facts, or print events as they come."""
    if sys.argv[1:] == [EVENTS]:
        _print_events()
        return
    # if the parent dies first, only the default action of the alarm ends a blocked child
    signal.alarm(_LIFE)
    sys.stdout.write(to_json(collect_nvml(LibraryBackend())) + "\n")


def _print_events() -> None:
    from zonewise.machine.nvml.event_watch import NvmlXid, watch_xids

    def report(xid: NvmlXid) -> None:
        sys.stdout.write(f"{xid.address} {xid.code} {xid.instance}\n")
        sys.stdout.flush()

    # if the parent dies, its end of the pipe is closed, which makes the pipe readable
    try:
        watch_xids(LibraryBackend(), report, lambda: bool(select.select([sys.stdin], [], [], 0)[0]))
    except NvmlError as error:
        sys.exit(f"NVML has no events: {error}")


if __name__ == "__main__":
    main()
