"""What the kubelet says: PodResources over gRPC, its configuration, its state files; as values."""

from __future__ import annotations

import os

# gRPC's core logs to standard error by itself, in a format of its own, at each restart of the kubelet ("Got goaway");
# every error comes to us as an exception. It looks here once, when it is imported, which only modules below this do.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
