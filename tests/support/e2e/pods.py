"""Short forms of pod manifests."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

GPU = "example.com/gpu"


def container(name: str = "c", /, **resources: str) -> Object:
    """Return a container with exactly these requests; "_" in resource names becomes "-", and gpu the name of GPUs."""
    amounts = {GPU if name == "gpu" else name.replace("_", "-"): amount for name, amount in resources.items()}
    return {
        "name": name,
        "image": "example.com/nothing:1",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": amounts, "limits": amounts},
    }


def init(name: str, /, **resources: str) -> Object:
    """Return an init container that succeeds at once."""
    return container(name, **resources) | {"command": ["exit", "0"]}


def sidecar(name: str, /, **resources: str) -> Object:
    """Return a restartable init container."""
    return container(name, **resources) | {"restartPolicy": "Always"}


def burstable(name: str = "c", /, **requests: str) -> Object:
    """Return a container without limits."""
    made = container(name, **requests)
    return made | {"resources": {"requests": made["resources"]["requests"]}}


def pod(name: str, *containers: Object, inits: tuple[Object, ...] = (), restart: str = "Always") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab"},
        "spec": {
            "containers": list(containers),
            "initContainers": list(inits),
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 1,
        },
    }
