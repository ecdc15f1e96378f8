"""Prints the notes of a release from CHANGELOG.md: `python3 tools/release_notes.py 0.1.0`.

It runs on Python 3.9 or later, without any packages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def release_notes(changelog: str, version: str) -> str:
    """Return the section of a version without its heading.

    Raises ValueError if there is none, or if it is marked as unreleased.
    """
    heading = re.search(rf"^## \[?{re.escape(version)}(?![\w.])\]?(?P<rest>.*)\n", changelog, re.MULTILINE)
    if heading is None:
        raise ValueError(f"CHANGELOG.md has no section for {version}")
    if "unreleased" in heading["rest"]:
        raise ValueError(f"CHANGELOG.md has {version} as unreleased: write the date of the release instead")
    body = changelog[heading.end() :]
    following = re.search(r"^## ", body, re.MULTILINE)
    notes = (body[: following.start()] if following else body).strip()
    if not notes:
        raise ValueError(f"CHANGELOG.md has nothing about {version}")
    return f"{notes}\n"


def main(arguments: list[str]) -> int:
    """Print the notes; return the exit status."""
    if len(arguments) != 1:
        print("usage: release_notes.py VERSION", file=sys.stderr)
        return 2
    try:
        print(release_notes(CHANGELOG.read_text(encoding="utf-8"), arguments[0]), end="")
    except ValueError as error:
        print(f"release_notes: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
