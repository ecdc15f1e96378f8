"""A Kubernetes API server in memory, on loopback: as kube-apiserver 1.36 in everything that the contract tests cover.

    with Server(crds=["noderesourcetopologies.yaml"]) as server:
        client = Client(server.client_config())

Left out: admission policies, authorisation, conversion between versions, expressions (CEL) in schemas, policies and
webhooks, protobuf.
"""

from zonewise_sandbox.apiserver.server import ApiServer

__all__ = ["ApiServer"]
