"""The kinds that the server offers: a table of the built-in kinds, and a registry to which definitions add theirs.

A new built-in kind without a schema needs only one line in the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.apiserver.json_values import Object

if TYPE_CHECKING:
    from collections.abc import Iterable

Schema = Object


class Column(NamedTuple):
    """A column of the table that `kubectl get` prints."""

    name: str
    type: str
    path: str
    """A simple JSON path: ".spec.size"."""
    priority: int = 0
    """0 if the column is always shown; higher for wide tables."""


class Kind(NamedTuple):
    """One resource in one version."""

    group: str
    """"" for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    """Whether it has a status subresource: writes to the object keep the status, writes to the status keep the rest."""
    generation: bool = False
    """Whether metadata.generation counts changes outside metadata and status."""
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    schema: Schema | None = None
    """The structural schema of a custom resource; None for built-in kinds, which have no schema."""
    custom: bool = False
    must_version: bool = False
    """Whether a PUT must contain the resourceVersion that it replaces."""

    @property
    def resource(self) -> tuple[str, str]:
        """Return the key of its objects in the store, which is the same for all versions."""
        return self.group, self.plural

    @property
    def api_version(self) -> str:
        """Return the apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Return its name for messages: "pods", "widgets.example.com"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """Return the singular name."""
        return self.kind.lower()


NAMESPACE = Kind("", "v1", "namespaces", "Namespace", namespaced=False, status=True, short_names=("ns",))
NODE = Kind("", "v1", "nodes", "Node", namespaced=False, status=True, short_names=("no",))
POD = Kind("", "v1", "pods", "Pod", status=True, generation=True, short_names=("po",))
SECRET = Kind("", "v1", "secrets", "Secret")
SERVICE = Kind("", "v1", "services", "Service", status=True, short_names=("svc",))
JOB = Kind("batch", "v1", "jobs", "Job", status=True, generation=True)
BUDGET = Kind(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", status=True, generation=True, short_names=("pdb",)
)
_REGISTRATION = "admissionregistration.k8s.io"
MUTATING_WEBHOOKS = Kind(
    _REGISTRATION,
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
    generation=True,
)
VALIDATING_WEBHOOKS = Kind(
    _REGISTRATION,
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
    generation=True,
)
DEFINITION = Kind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    status=True,
    generation=True,
    short_names=("crd", "crds"),
    must_version=True,
)

BUILT_IN = (
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    SERVICE,
    JOB,
    DEFINITION,
    Kind("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    Kind("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)),
    Kind("", "v1", "events", "Event", short_names=("ev",)),
    Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", status=True, short_names=("pvc",)),
    Kind("", "v1", "podtemplates", "PodTemplate", generation=True),
    Kind("coordination.k8s.io", "v1", "leases", "Lease", must_version=True),
    Kind("events.k8s.io", "v1", "events", "Event"),
    Kind("apps", "v1", "daemonsets", "DaemonSet", status=True, generation=True, short_names=("ds",)),
    Kind("apps", "v1", "deployments", "Deployment", status=True, generation=True, short_names=("deploy",)),
    Kind("apps", "v1", "statefulsets", "StatefulSet", status=True, generation=True, short_names=("sts",)),
    Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", generation=True, short_names=("netpol",)),
    Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, short_names=("pc",)),
    BUDGET,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Kind("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False),
    Kind("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    # stored but never evaluated: their expressions are CEL
    Kind(
        _REGISTRATION,
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        namespaced=False,
        status=True,
        generation=True,
    ),
    Kind(
        _REGISTRATION,
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        namespaced=False,
        generation=True,
    ),
)

REVIEWS = (
    Kind("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False),
    Kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False),
    Kind("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False),
    Kind("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False),
)
"""Reviews, which are evaluated but never stored."""


class Registry:
    """The kinds that the server currently serves. A change replaces the whole index, so readers need no lock."""

    def __init__(self) -> None:
        """Create a registry with the built-in kinds."""
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in (*BUILT_IN, *REVIEWS)}

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind at a path, or None."""
        return self._by_path.get((group, version, plural))

    def find_resource(self, resource: tuple[str, str]) -> Kind | None:
        """Return one of the versions of a resource."""
        return next((kind for kind in self._by_path.values() if kind.resource == resource), None)

    def all(self) -> list[Kind]:
        """Return every kind."""
        return list(self._by_path.values())

    def replace(self, resource: tuple[str, str], kinds: Iterable[Kind]) -> None:
        """Replace the versions of a resource; without kinds, the resource is removed."""
        remaining = {path: kind for path, kind in self._by_path.items() if kind.resource != resource}
        self._by_path = remaining | {(kind.group, kind.version, kind.plural): kind for kind in kinds}
