"""Informers of PodGroups for both APIs, each of which is optional in a cluster."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol

from zonewise_common.kube.probe import PROBE_PERIOD
from zonewise_common.kube.resources import ALPHA_POD_GROUPS, IN_TREE_POD_GROUPS, POD_GROUPS
from zonewise_scheduler.extender.objects.pod_group import decode_in_tree_pod_group, decode_pod_group
from zonewise_scheduler.extender.optional_informer import OptionalInformer

if TYPE_CHECKING:
    from typing import Self

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.extender.objects.pod_group import PodGroup
    from zonewise_scheduler.extender.objects.served import Served

_DECODERS = {
    (POD_GROUPS,): decode_pod_group,
    (IN_TREE_POD_GROUPS, ALPHA_POD_GROUPS): decode_in_tree_pod_group,
}
"""Decoders by the versions of an API."""


class PodGroupHandler(Protocol):
    """The receiver of the events."""

    def update_pod_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Add, update or remove a PodGroup."""
        ...

    def set_pod_groups_served(self, api_group: str, served: Served) -> None:
        """Record whether an API is served."""
        ...


class PodGroupInformers:
    """Keeps a handler up to date, in threads that run while the context is entered."""

    def __init__(self, client: Client, handler: PodGroupHandler, *, probe_period: float = PROBE_PERIOD) -> None:
        self._stack = ExitStack()
        self._informers = [
            OptionalInformer(
                client, versions, decode, handler.update_pod_group,
                partial(handler.set_pod_groups_served, versions[0].group), probe_period=probe_period,
            )
            for versions, decode in _DECODERS.items()
        ]  # fmt: skip

    def __enter__(self) -> Self:
        for informer in self._informers:
            self._stack.enter_context(informer)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
