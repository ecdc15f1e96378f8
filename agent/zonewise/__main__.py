"""`zonewise`, `kubectl zonewise` and `python -m zonewise` as processes."""

from __future__ import annotations

import sys

from zonewise_common.cli.interrupts import killed_by_interrupt


def main() -> int:
    """Run `zonewise` with the arguments of the process; return its exit status."""
    with killed_by_interrupt():
        from zonewise import cli
    return cli.main()


def main_of_kubectl() -> int:
    """Run `kubectl zonewise`."""
    with killed_by_interrupt():
        from zonewise import cli
    return cli.main_of_kubectl()


if __name__ == "__main__":
    sys.exit(main())
