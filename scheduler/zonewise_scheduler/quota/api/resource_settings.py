"""Kueue's setting `resources`: which requests of a pod count against quotas, and as which resources.

    resources:
      quotaCheckStrategy: BlockUndeclared
      excludeResourcePrefixes: [example.com/nic]
      transformations:
      - input: nvidia.com/mig-1g.10gb
        strategy: Replace
        multiplyBy: example.com/copies
        outputs: {example.com/gpu-memory: 10}
      deviceClassMappings:
      - name: example.com/gpus
        deviceClassNames: [gpu.nvidia.com]

Requests on nodes are not affected. Devices that a pod requests through ResourceClaimTemplates are requests for the
resource DEVICE_CLASS plus the name of their DeviceClass. A mapping replaces them by a resource that has a quota.
Sources: apis/config/v1beta2/configuration_types.go Resources; pkg/config/validation.go validateResourceTransformations,
validateQuotaCheckStrategy.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.quantity import parse_nano_value
from zonewise_scheduler.nodes.devices.class_resource import DEVICE_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RESOURCES_SETTING = "resources"
QuotaCheckStrategy = Literal["BlockUndeclared", "IgnoreUndeclared"]
Strategy = Literal["Retain", "Replace"]

_MILLI = 1000
_NANO = 1_000_000_000


class ResourceTransformation(NamedTuple):
    """Additional requests that a request for a resource causes."""

    input: str
    strategy: Strategy = "Retain"
    """Whether the request itself still counts."""
    multiply_by: str = ""
    """Resource whose requested amount multiplies the outputs; "": none. It has no effect if a pod does not request
    it."""
    outputs: tuple[tuple[str, int], ...] = ()
    """Billionths of each output per unit of the input."""


class ResourceSettings(NamedTuple):
    """The setting `resources`."""

    quota_check_strategy: QuotaCheckStrategy = "BlockUndeclared"
    """Whether a workload that requests a resource without a quota waits, or that request does not count."""
    exclude_resource_prefixes: tuple[str, ...] = ()
    """Prefixes of resources that do not count."""
    transformations: tuple[ResourceTransformation, ...] = ()

    @property
    def counts_devices(self) -> bool:
        """Return whether the devices of any DeviceClass may count."""
        return not DEVICE_CLASS.startswith(self.exclude_resource_prefixes)

    def counted_requests(self, milli_requests: Mapping[str, int]) -> dict[str, int]:
        """Return what a pod's requests, in thousandths of their units, count against quotas.

        Outputs add to each other, and a negative sum of outputs counts as 0 (pkg/workload/workload.go
        dropExcludedResources, applyResourceTransformations).
        """
        requests = {
            name: amount
            for name, amount in milli_requests.items()
            if not name.startswith(self.exclude_resource_prefixes)
        }
        generated: dict[str, Fraction] = {}
        replaced: set[str] = set()
        for transformation in self.transformations:
            amount = requests.get(transformation.input)
            if amount is None:
                continue
            factor = Fraction(requests.get(transformation.multiply_by, _MILLI), _MILLI)
            for name, billionths in transformation.outputs:
                generated[name] = generated.get(name, Fraction(0)) + amount * factor * Fraction(billionths, _NANO)
            if transformation.strategy == "Replace":
                replaced.add(transformation.input)
        counted = {name: amount for name, amount in requests.items() if name not in replaced}
        for name, amount in generated.items():
            counted[name] = counted.get(name, 0) + max(0, ceil(amount))
        return counted

    def as_object(self) -> dict[str, Any]:
        """Return the setting as parse_resource_settings() reads it."""
        return {
            "quotaCheckStrategy": self.quota_check_strategy,
            "excludeResourcePrefixes": list(self.exclude_resource_prefixes),
            "transformations": [
                {
                    "input": item.input,
                    "strategy": item.strategy,
                    "multiplyBy": item.multiply_by,
                    "outputs": {name: f"{billionths}n" for name, billionths in item.outputs},
                }
                for item in self.transformations
            ],
        }


ALL_RESOURCES = ResourceSettings()
"""Each request counts, as by default."""


def parse_resource_settings(value: object) -> ResourceSettings:
    """Return the setting `resources`. Raises ValueError that lists each invalid field and its value."""
    problems: list[str] = []
    reader = FieldReader({RESOURCES_SETTING: value}, "", problems).child(RESOURCES_SETTING)
    strategy: QuotaCheckStrategy = "BlockUndeclared"
    settings = ResourceSettings(
        reader.choice("quotaCheckStrategy", QuotaCheckStrategy, strategy),
        reader.texts("excludeResourcePrefixes"),
        (*map(_transformation, reader.children("transformations")), *_device_class_mappings(reader)),
    )
    if settings.quota_check_strategy == "IgnoreUndeclared" and settings.exclude_resource_prefixes:
        reader.report("excludeResourcePrefixes", "must be empty if quotaCheckStrategy is IgnoreUndeclared")
    reader.report_unknown()
    problems += _duplicates(settings.transformations)
    if problems:
        raise ValueError("; ".join(problems))
    return settings


def _transformation(reader: FieldReader) -> ResourceTransformation:
    strategy: Strategy = "Retain"
    transformation = ResourceTransformation(
        reader.required_name("input"),
        reader.choice("strategy", Strategy, strategy),
        reader.text("multiplyBy"),
        tuple(sorted(_outputs(reader.child("outputs")).items())),
    )
    reader.report_unknown()
    return transformation


def _device_class_mappings(settings: FieldReader) -> Iterator[ResourceTransformation]:
    """Yield a transformation for each DeviceClass (pkg/dra/mapper.go PopulateFromConfiguration)."""
    replace: Strategy = "Replace"
    for reader in settings.children("deviceClassMappings"):
        name = reader.required_name()
        classes = reader.texts("deviceClassNames")
        if not classes:
            reader.report("deviceClassNames", "must name a DeviceClass")
        for device_class in classes:
            yield ResourceTransformation(f"{DEVICE_CLASS}{device_class}", replace, outputs=((name, _NANO),))
        if reader.has("sources"):
            reader.report("sources", "only the number of devices can be counted")
        reader.report_unknown()


def _outputs(reader: FieldReader) -> dict[str, int]:
    """Return billionths by resource. They may be negative. Numbers as keys become strings, as in Kueue."""
    outputs: dict[str, int] = {}
    for name, value in reader.obj.items():
        try:
            outputs[str(name)] = parse_nano_value(str(value))
        except ValueError:
            reader.report(name, "not a quantity")
    return outputs


def _duplicates(transformations: Sequence[ResourceTransformation]) -> list[str]:
    inputs = [item.input for item in transformations]
    return [
        f"{RESOURCES_SETTING}: has more than one transformation of {name!r:.80}"
        for name in dict.fromkeys(inputs)
        if inputs.count(name) > 1
    ]
