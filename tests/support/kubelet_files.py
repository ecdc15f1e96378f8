"""Files replaced as the kubelet replaces its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace(path: Path, content: bytes | str = b"{}") -> None:
    """Write a file by a temporary one beside it and a rename (pkg/kubelet/util/store/filestore.go writeFile())."""
    temporary = path.parent / f".{abs(hash(path.name)) % 10**9}"
    temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    temporary.rename(path)
