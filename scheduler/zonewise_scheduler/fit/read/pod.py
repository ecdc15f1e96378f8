"""A v1.Pod, or a template of one, to what of it decides about its fit to a node.

Requests are defaulted as the API server does (pkg/apis/core/v1/defaults.go SetDefaults_Pod), so that a template that no
API server has seen gives the same shape as its pods. Claims of Dynamic Resource Allocation are left out: they give no
hints to the Topology Manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from zonewise_scheduler.fit.model.pod import Container, PodLevel, PodShape, Qos
from zonewise_scheduler.fit.read.qos import Compute, qos_of
from zonewise_scheduler.fit.read.quantities import milli, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.fit.model.pod import Amounts, Role

Json = dict[str, Any]

_CPU, _MEMORY, _STORAGE, _HUGEPAGES = "cpu", "memory", "ephemeral-storage", "hugepages-"
_QOS: tuple[Qos, ...] = get_args(Qos)


class PodError(ValueError):
    """A field of a pod that cannot be read."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def read_pod(pod: Mapping[str, Any]) -> PodShape:
    """Return the shape of a pod; raise PodError, naming field and value, for one that no API server would take."""
    spec = _object(pod, "spec", "spec")
    asked = [
        *_containers(spec.get("initContainers"), "spec.initContainers", initial=True),
        *_containers(spec.get("containers"), "spec.containers", initial=False),
    ]
    if not spec.get("containers"):
        raise PodError("spec.containers", "there is none")
    own = None if spec.get("resources") is None else _own(spec, asked)
    return PodShape(
        tuple(one.container for one in asked),
        _qos(pod, [one.compute for one in asked] if own is None else [own.compute]),
        None if own is None else own.level,
        _overhead(_object(spec, "overhead", "spec.overhead")),
    )


def is_device(resource: str) -> bool:
    """Tell whether a resource is an extended one, as device plugins offer.

    pkg/apis/core/v1/helper/helpers.go IsExtendedResourceName.
    """
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


# --- containers


class _Asked(NamedTuple):
    """What a container asks for."""

    container: Container
    compute: Compute
    cpus: bool
    """It has a request of CPUs, if of 0."""


def _containers(value: object, at: str, *, initial: bool) -> Iterator[_Asked]:
    if value is None:
        return
    if not isinstance(value, list):
        raise PodError(at, f"not a list: {_short(value)}")
    for place, one in enumerate(cast("list[object]", value)):
        here = f"{at}[{place}]"
        if not isinstance(one, dict):
            raise PodError(here, f"not an object: {_short(one)}")
        yield _container(cast("Json", one), here, initial=initial)


def _container(one: Json, at: str, *, initial: bool) -> _Asked:
    name = one.get("name")
    if not isinstance(name, str) or not name:
        raise PodError(f"{at}.name", f"not a name: {_short(name)}")
    given, limits = _resources(one, at)
    requests = limits | given if limits else given
    memory = _memory(requests, at)
    milli_cpus = _amount(requests, _CPU, at)
    devices = sorted(resource for resource in limits if is_device(resource))
    most = (_amount(limits, _CPU, at, "limits"), _amount(limits, _MEMORY, at, "limits"))
    compute = Compute((milli_cpus, dict(memory).get(_MEMORY, 0)), most)
    made = Container(
        name,
        _role(one, initial=initial),
        milli_cpus,
        memory,
        tuple((resource, _amount(limits, resource, at, "limits")) for resource in devices),
        _amount(requests, _STORAGE, at),
        complete=qos_of([compute]) == "Guaranteed",
    )
    return _Asked(made, compute, _CPU in requests)


def _role(one: Json, *, initial: bool) -> Role:
    if not initial:
        return "app"
    return "sidecar" if one.get("restartPolicy") == "Always" else "init"


def _resources(owner: Json, at: str) -> tuple[Json, Json]:
    """Return requests and limits as they are given."""
    given = _object(owner, "resources", f"{at}.resources")
    return (
        _object(given, "requests", f"{at}.resources.requests"),
        _object(given, "limits", f"{at}.resources.limits"),
    )


def _memory(requests: Json, at: str) -> Amounts:
    names = sorted(name for name in requests if name == _MEMORY or name.startswith(_HUGEPAGES))
    return tuple((name, _amount(requests, name, at)) for name in names)


def _amount(amounts: Json, name: str, at: str, kind: str = "requests") -> int:
    """Return milli-CPU of CPUs, the unit of everything else; 0 where nothing is said."""
    value = amounts.get(name)
    if value is None:
        return 0
    try:
        return milli(value) if name == _CPU else whole(value)
    except ValueError as error:
        raise PodError(f'{at}.resources.{kind}["{name}"]', str(error)) from None


# --- the pod as a whole


class _Own(NamedTuple):
    """What a pod asks for as a whole."""

    level: PodLevel | None
    """None where it is nothing of a kind that a pod can have (resourcehelper IsPodLevelResourcesSet)."""
    compute: Compute


def _own(spec: Json, asked: list[_Asked]) -> _Own:
    """Return the pod's own requests with their defaults.

    defaults.go defaultHugePagePodLimits and defaultPodRequests: where the pod has any limit, CPUs and memory default to
    what the containers request together, else to the limit; huge pages to their limit, by default the containers'.
    """
    requests, limits = _resources(spec, "spec")
    own = {name: _amount(requests, name, "spec") for name in requests if _of_pods(name)}
    most = {name: _amount(limits, name, "spec", "limits") for name in limits if _of_pods(name)}
    if not own and not most:
        return _Own(None, Compute((0, 0), (0, 0)))
    together = _together(asked)
    most = {name: size for name, size in together.items() if name.startswith(_HUGEPAGES) and name not in own} | most
    if most:
        own = most | {name: size for name, size in together.items() if not name.startswith(_HUGEPAGES)} | own
    compute = Compute(
        (own.get(_CPU, 0), own.get(_MEMORY, 0)),
        (most.get(_CPU, 0), most.get(_MEMORY, 0)),
    )
    return _Own(PodLevel(own.pop(_CPU, None), tuple(sorted(own.items()))), compute)


def _of_pods(resource: str) -> bool:
    return resource in {_CPU, _MEMORY} or resource.startswith(_HUGEPAGES)


def _together(asked: list[_Asked]) -> dict[str, int]:
    """Return the CPUs and memory that containers request together.

    resourcehelper AggregateContainerRequests: init containers run one by one, beside the sidecars before them.
    """
    lasting: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container, _, cpus in asked:
        amounts = dict(container.memory) | ({_CPU: container.milli_cpus} if cpus else {})
        for name, size in amounts.items():
            if container.role == "init":
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + size)
                continue
            lasting[name] = lasting.get(name, 0) + size
            if container.role == "sidecar":
                sidecars[name] = sidecars.get(name, 0) + size
    return {name: max(lasting.get(name, 0), peak.get(name, 0)) for name in lasting | peak}


def _overhead(amounts: Json) -> Amounts:
    found: list[tuple[str, int]] = []
    for name in sorted(amounts):
        try:
            found.append((name, milli(amounts[name]) if name == _CPU else whole(amounts[name])))
        except ValueError as error:
            raise PodError(f'spec.overhead["{name}"]', str(error)) from None
    return tuple(found)


def _qos(pod: Mapping[str, Any], asked: list[Compute]) -> Qos:
    """Return the class that the API server wrote, or that it would write."""
    told = _object(pod, "status", "status").get("qosClass")
    if not told:
        return qos_of(asked)
    if told not in _QOS:
        raise PodError("status.qosClass", f"none of {', '.join(_QOS)}: {_short(told)}")
    return told


def _object(owner: Mapping[str, Any], name: str, at: str) -> Json:
    value = owner.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PodError(at, f"not an object: {_short(value)}")
    return cast("Json", value)


def _short(value: object) -> str:
    return repr(value)[:80]
