"""Argument types for argparse that several packages use. Each raises ArgumentTypeError with the expected form."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

MAX_PORT = 65535


def port(text: str) -> int:
    """Return a TCP port; 0 stands for any free port."""
    if not (re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) and int(text) <= MAX_PORT):
        raise ArgumentTypeError(f"{text!r} is not a port from 0 to {MAX_PORT}")
    return int(text)
