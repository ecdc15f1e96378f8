"""The version of a release, as an argument of tools."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

_VERSION = re.compile(r"\d+\.\d+\.\d+(\.?(dev|a|b|rc)\d+)?")


def parse_version(text: str) -> str:
    """Return a version in the notation of PEP 440: "0.1.0", "0.1.0.dev0", "0.1.0rc1".

    Raises ArgumentTypeError for other texts.
    """
    if not _VERSION.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is no version such as 0.1.0 or 0.1.0rc1")
    return text
