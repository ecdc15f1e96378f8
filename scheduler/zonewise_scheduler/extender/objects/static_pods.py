"""Static pods, which a kubelet runs from files, as their mirror pods at the API server show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.k8s.tolerant import Json

_MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a mirror pod: the UID of its static pod (pkg/kubelet/types ConfigMirrorAnnotationKey)."""


def static_uid(metadata: Mapping[str, Any]) -> str:
    """Return an identity of the static pod of a mirror pod; "" for any other pod.

    The kubelet creates a deleted mirror pod again, with another UID, while the static pod continues to run
    (pkg/kubelet/kubelet.go tryReconcileMirrorPods). A changed file is another static pod.
    """
    annotations: object = metadata.get("annotations")
    uid = cast("Json", annotations).get(_MIRROR) if isinstance(annotations, dict) else None
    return f"static/{metadata.get('namespace', '')}/{metadata.get('name', '')}/{uid}" if uid else ""
