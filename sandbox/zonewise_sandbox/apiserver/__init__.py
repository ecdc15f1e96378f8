"""A Kubernetes API server in memory, on loopback.

It behaves like kube-apiserver 1.36 in all that the contract tests cover.

    with Server(crds=["noderesourcetopologies.yaml"]) as server:
        client = Client(server.client_config())

Not supported: admission policies, authorisation, conversion between versions, expressions (CEL) in schemas, policies
and webhooks, protobuf.
"""

from zonewise_sandbox.apiserver.server import ApiServer

__all__ = ["ApiServer"]
