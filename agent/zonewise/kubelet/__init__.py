"""The kubelet's reports as values: PodResources over gRPC, its configuration, its state files."""

from __future__ import annotations

import os

# gRPC's core logs to standard error in its own format at each restart of the kubelet ("Got goaway"). Every error
# reaches us as an exception. gRPC reads this variable once, when it is imported, which only modules below this package
# do.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
