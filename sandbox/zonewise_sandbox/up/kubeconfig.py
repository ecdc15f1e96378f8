"""The kubeconfig of a cluster on loopback: one context, no credentials."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

NAME = "zonewise-up"
"""Name of the cluster, user and context."""


def kubeconfig(url: str) -> str:
    """Return the kubeconfig as JSON, which is also YAML."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": url}}],
        "users": [{"name": NAME, "user": {}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    }
    return json.dumps(document, indent=2) + "\n"


@contextmanager
def written_kubeconfig(url: str, path: str) -> Generator[str]:
    """Write the kubeconfig and yield its path; "" selects a temporary file. The file is removed at the end.

    Raises OSError, even if only because the file exists.
    """
    if path:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    else:
        handle, path = tempfile.mkstemp(prefix="zonewise-up-", suffix=".kubeconfig")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(kubeconfig(url))
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
