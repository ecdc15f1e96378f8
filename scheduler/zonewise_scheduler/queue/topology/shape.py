"""A pod set's request, resolved to the levels of a tree."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from zonewise_scheduler.queue.topology.model import Layer, Options, PodSet, Request


class Shape(NamedTuple):
    """What is to be found; levels are places in the keys of a tree."""

    pods: int
    """How many, without the leader."""
    leader: bool
    level: int
    """Where the search begins: of the required or preferred domain; the innermost for pods without constraint."""
    slice_level: int
    size: int
    """Pods of a slice of the outermost layer; 1 where none are asked for."""
    sizes: Mapping[int, int]
    """By level below the slices' one: the inner layer's size, that of the next layer further in between two."""
    layers: tuple[Layer, ...]
    required: bool
    unconstrained: bool
    least_free: bool
    """The profile LeastFreeCapacity, else BestFit."""
    by_score: bool
    balanced: bool

    @property
    def slices(self) -> int:
        """Return how many slices of the outermost layer there are."""
        return self.pods // self.size


def has_levels(keys: Sequence[str], request: Request | None) -> bool:
    """Tell whether a topology has all levels that a request names, and whether it names any (HasLevel)."""
    if request is None or not (request.required or request.preferred or request.unconstrained or request.layers):
        return False
    named = [request.required or request.preferred, *(layer.level for layer in request.layers)]
    return all(level in keys for level in named if level)


def shape_of(keys: Sequence[str], pods: PodSet, options: Options, *, leader: bool) -> Shape | str:
    """Return what is asked for, or in the words of Kueue why it makes no sense on these levels."""
    request = pods.request or Request(unconstrained=True)
    size = request.layers[0].size if request.layers else 1
    if size < 1:
        return "slice topology requested, but slice size not provided"
    key = _level(keys, request)
    slice_key = request.layers[0].level if request.layers else keys[-1]
    problem = _level_problem(keys, key, slice_key)
    sizes = problem or _inner_sizes(keys, request.layers)
    if isinstance(sizes, str):
        return sizes
    if pods.size % size:
        return f"slice size {size} must evenly divide the pod set's {pods.size} pods"
    only_slices = bool(request.layers) and not (request.required or request.preferred)
    unconstrained = request.unconstrained or only_slices
    return Shape(
        pods.size,
        leader,
        keys.index(key),
        keys.index(slice_key),
        size,
        sizes,
        request.layers,
        required=bool(request.required),
        unconstrained=unconstrained,
        least_free=unconstrained and options.mixed_profile,
        by_score=options.preferred_affinity,
        balanced=options.balanced and not request.required and not unconstrained,
    )


def _level(keys: Sequence[str], request: Request) -> str:
    """Return the level where the search begins; "" where the request names none."""
    outermost = keys[0] if request.layers else ""
    innermost = keys[-1] if request.unconstrained else ""
    return request.required or request.preferred or outermost or innermost


def _level_problem(keys: Sequence[str], key: str, slice_key: str) -> str:
    if not key:
        return "topology level not specified"
    if key not in keys:
        return f"no requested topology level: {key}"
    if slice_key not in keys:
        return f"no requested topology level for slices: {slice_key}"
    if keys.index(key) > keys.index(slice_key):
        return f"podset slice topology {slice_key} is above the podset topology {key}"
    return ""


def _inner_sizes(keys: Sequence[str], layers: Sequence[Layer]) -> dict[int, int] | str:
    """Return the sizes of the layers but the outermost, by level."""
    found: dict[int, int] = {}
    for outer, inner in pairwise(layers):
        if inner.level not in keys:
            return f"no requested topology level for additional slice layer: {inner.level}"
        begin, end = keys.index(outer.level) + 1, keys.index(inner.level) + 1
        if begin >= end:
            return f"additional slice layer topology {inner.level} must be at a lower level than {outer.level}"
        if inner.size < 1 or outer.size % inner.size:
            return f"additional slice layer size {inner.size} must evenly divide parent layer size {outer.size}"
        found |= dict.fromkeys(range(begin, end), inner.size)
    return found
