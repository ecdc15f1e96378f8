"""A machine's files on disk, for tests of code that opens directories and of whole programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def lay_out(tree: Mapping[str, bytes | str | None], root: Path) -> Path:
    """Write a tree below a directory: bytes as files, text as symbolic links, None as directories."""
    for path, content in tree.items():
        place = root / path
        if content is None:
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            os.symlink(content, place)
        else:
            place.write_bytes(content)
    return root
