"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration: defaults, validation, and the requests they match.

Sources: pkg/apis/admissionregistration/v1/defaults.go, pkg/apis/admissionregistration/validation/validation.go;
k8s.io/apiserver/pkg/admission/plugin/webhook/predicates (rules, namespace, object), generic/webhook.go ShouldCallHook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldError
from zonewise_common.k8s.labels import Requirement, is_subdomain, read_requirements, selects
from zonewise_sandbox.apiserver.json_values import list_in, object_in
from zonewise_sandbox.apiserver.kinds import MUTATING_WEBHOOKS, NAMESPACE, VALIDATING_WEBHOOKS
from zonewise_sandbox.apiserver.status_errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.kinds import Kind
    from zonewise_sandbox.apiserver.request_info import Target
    from zonewise_sandbox.apiserver.reviews import User

_DEFAULTS: Object = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_CHOICES = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "sideEffects": ("None", "NoneOnDryRun"),
    "reinvocationPolicy": ("Never", "IfNeeded"),
}
_MAX_TIMEOUT = 30  # seconds
_REVIEW_VERSIONS = ("v1", "v1beta1")


class AdmissionRequest(NamedTuple):
    """A request that webhooks may change or deny."""

    operation: str
    """CREATE, UPDATE or DELETE."""
    target: Target
    old: Object | None
    """The stored object; None for a creation."""
    dry_run: bool
    options: Object
    """CreateOptions, UpdateOptions, PatchOptions or DeleteOptions."""
    user: User


def is_configuration(kind: Kind) -> bool:
    """Return whether objects of a kind configure webhooks."""
    return kind.resource in {MUTATING_WEBHOOKS.resource, VALIDATING_WEBHOOKS.resource}


def set_defaults(configuration: Object) -> Object:
    """Return a configuration with the defaults of its webhooks."""
    mutating = configuration.get("kind") == MUTATING_WEBHOOKS.kind
    defaults = {**_DEFAULTS, **({"reinvocationPolicy": "Never"} if mutating else {})}
    webhooks = [{**defaults, **webhook} for webhook in list_in(configuration, "webhooks")]
    for webhook in webhooks:
        webhook["rules"] = [{"scope": "*", **rule} for rule in list_in(webhook, "rules")]
        client = object_in(webhook, "clientConfig")
        if client.get("service"):
            webhook["clientConfig"] = {**client, "service": {"port": 443, **client["service"]}}
    return {**configuration, "webhooks": webhooks} if webhooks else configuration


def validate_configuration(configuration: Object) -> Iterator[Cause]:
    """Yield errors for invalid fields; matchConditions are rejected, since this server does not evaluate CEL."""
    names: set[str] = set()
    for number, webhook in enumerate(list_in(configuration, "webhooks")):
        path, name = f"webhooks[{number}]", str(webhook.get("name") or "")
        if not name:
            yield required(f"{path}.name")
        elif not is_subdomain(name) or name.count(".") < 2:
            detail = "should be a domain with at least three segments separated by dots"
            yield invalid_value(f"{path}.name", name, detail)
        if name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)
        yield from _validate_webhook(webhook, path)


def _validate_webhook(webhook: Object, path: str) -> Iterator[Cause]:
    if not webhook.get("sideEffects"):
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    for field, choices in _CHOICES.items():
        if webhook.get(field) and webhook[field] not in choices:
            yield unsupported(f"{path}.{field}", webhook[field], choices)
    if not 1 <= webhook["timeoutSeconds"] <= _MAX_TIMEOUT:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], detail)
    yield from _validate_client(webhook, path)
    if webhook.get("matchConditions"):
        yield forbidden_field(f"{path}.matchConditions", "this server does not evaluate CEL")
    for field in ("namespaceSelector", "objectSelector"):
        if not all(requirement.is_valid() for requirement in _requirements(webhook[field])):
            yield invalid_value(f"{path}.{field}", webhook[field], "not a valid selector operator")


def _validate_client(webhook: Object, path: str) -> Iterator[Cause]:
    client = object_in(webhook, "clientConfig")
    if bool(client.get("url")) == bool(client.get("service")):
        yield required(f"{path}.clientConfig", "exactly one of url or service is required")
    if client.get("url") and not str(client["url"]).startswith("https://"):
        detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield invalid_value(f"{path}.clientConfig.url", client["url"], detail)
    versions = list_in(webhook, "admissionReviewVersions")
    if not versions:
        yield required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
    elif "v1" not in versions:
        detail = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        yield invalid_value(f"{path}.admissionReviewVersions", versions, detail)


def matches(webhook: Object, request: AdmissionRequest, obj: Object | None, namespace_labels: Object | None) -> bool:
    """Return whether a webhook receives a request; `namespace_labels` is None for cluster-wide objects.

    matchPolicy Equivalent acts like Exact: requests are not converted to other versions.
    """
    selector = _requirements(webhook["objectSelector"])
    labels = [object_in(item["metadata"], "labels") for item in (obj, request.old) if item is not None]
    if selector and not any(selects(selector, each) for each in labels):
        return False
    if request.target.kind.resource == NAMESPACE.resource:
        namespace_labels = labels[0]
    if namespace_labels is not None and not selects(_requirements(webhook["namespaceSelector"]), namespace_labels):
        return False
    return any(_rule_matches(rule, request) for rule in list_in(webhook, "rules"))


def _rule_matches(rule: Object, request: AdmissionRequest) -> bool:
    kind, subresource = request.target.kind, request.target.subresource
    if rule["scope"] != "*" and (rule["scope"] == "Namespaced") != kind.namespaced:
        return False
    parts = (pattern.partition("/") for pattern in list_in(rule, "resources"))
    return (
        _has(rule, "operations", request.operation)
        and _has(rule, "apiGroups", kind.group)
        and _has(rule, "apiVersions", kind.version)
        and any(name in {"*", kind.plural} and part in {"*", subresource} for name, _, part in parts)
    )


def _has(rule: Object, field: str, value: str) -> bool:
    return not {"*", value}.isdisjoint(list_in(rule, field))


def _requirements(selector: Object) -> tuple[Requirement, ...]:
    labels = tuple(Requirement(key, "In", (value,)) for key, value in object_in(selector, "matchLabels").items())
    try:
        return labels + read_requirements(selector, "matchExpressions", "")
    except FieldError:
        return (Requirement("", "Invalid"),)
