"""Files replaced the way the kubelet replaces its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace(path: Path, content: bytes | str = b"{}") -> None:
    """Write a temporary file beside the target and rename it (pkg/kubelet/util/store/filestore.go writeFile())."""
    temporary = path.parent / f".{abs(hash(path.name)) % 10**9}"
    temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    temporary.rename(path)
