"""An embedded Kubernetes API server: in memory, on loopback, true to kube-apiserver 1.36 in all that is tested.

    with Server(crds=["noderesourcetopologies.yaml"]) as server:
        client = Client(server.client_config())

Left out: admission webhooks and policies, authorisation, conversion between versions, expressions in schemas, protobuf.
"""

from zonewise_sandbox.apiserver.server import ApiServer

__all__ = ["ApiServer"]
