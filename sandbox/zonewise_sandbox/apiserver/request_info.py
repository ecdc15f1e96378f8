"""The target and the options of a request."""

from typing import NamedTuple

from zonewise_sandbox.apiserver.kinds import Kind
from zonewise_sandbox.apiserver.reviews import ADMIN, User
from zonewise_sandbox.apiserver.storage.store import Key


class Target(NamedTuple):
    """A resource, one of its objects, or a subresource."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """Return the key of the object in the store."""
        return self.namespace, self.name


class WriteOptions(NamedTuple):
    """Options for writes (CreateOptions, UpdateOptions, PatchOptions)."""

    manager: str = "unknown"
    force: bool = False
    dry_run: bool = False
    strict: bool = False
    """Whether unknown fields are rejected instead of dropped (fieldValidation=Strict)."""
    user: User = ADMIN


class DeleteOptions(NamedTuple):
    """Options for deletions (DeleteOptions)."""

    uid: str | None = None
    resource_version: str | None = None
    grace_period_seconds: int | None = None
    """Grace period in seconds."""
    propagation: str = ""
    """Background, Foreground or Orphan; "" for the kind's default."""
    dry_run: bool = False
