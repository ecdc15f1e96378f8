"""Parses nfd-worker.conf, the configuration of Node Feature Discovery's worker.

Keys and defaults are those of pkg/nfd-worker/nfd-worker.go (coreConfig) and of the Config of each source
(source/*/*.go) in v0.19. A key that is not honoured here is reported as a problem and has no other effect. A value of
the wrong type is an error, as it is for the worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from zonewise.nfd.string_fields import field_text
from zonewise.rules.regexps import compile_regexp
from zonewise.rules.types import RuleError
from zonewise_common.k8s.yaml_document import load_first_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

LOCAL, CUSTOM = "local", "custom"
FEATURE_SOURCES = frozenset({"cpu", "kernel", "memory", "network", "pci", "storage", "system", "usb", LOCAL})
LABEL_SOURCES = FEATURE_SOURCES | {CUSTOM}

PCI_FIELDS = ("class", "vendor", "device", "subsystem_vendor", "subsystem_device")
"""Attributes that a label's name may contain, in their order in the name (source/pci/utils.go, mandatoryDevAttrs)."""
USB_FIELDS = ("class", "vendor", "device")

_NO_CPUID_LABEL = """
    AVX10 BMI1 BMI2 CLMUL CMOV CX16 ERMS F16C HTT LZCNT MMX MMXEXT NX POPCNT RDRAND RDSEED RDTSCP SGX SGXLC SSE SSE2
    SSE3 SSE4 SSE42 SSSE3 TDX_GUEST
"""


class DeviceLabels(NamedTuple):
    """The devices of a bus that have labels, and the attributes in the labels' names."""

    classes: tuple[str, ...]
    """Prefixes of device classes, in lower case."""
    fields: tuple[str, ...]


class WorkerConfig(NamedTuple):
    """The decisions of the configuration; the defaults are the worker's."""

    label_white_list: str = ""
    """A regular expression; a label is left out if its name after the prefix does not contain a match."""
    no_publish: bool = False
    feature_sources: frozenset[str] = FEATURE_SOURCES
    label_sources: frozenset[str] = LABEL_SOURCES
    no_publish_features: tuple[str, ...] = ()
    """Names of raw features that are not published; names that end in "*" are prefixes."""
    cpuid_blacklist: frozenset[str] = frozenset(_NO_CPUID_LABEL.split())
    cpuid_whitelist: frozenset[str] = frozenset()
    """If not empty, the only flags that have labels."""
    kernel_options: tuple[str, ...] = ("NO_HZ", "NO_HZ_IDLE", "NO_HZ_FULL", "PREEMPT")
    """The kernel options that have labels."""
    kconfig_file: str = ""
    """The file with the kernel's options, which overrides the options of the running kernel; empty for none."""
    pci: DeviceLabels = DeviceLabels(("03", "0b40", "12"), ("class", "vendor"))
    usb: DeviceLabels = DeviceLabels(("0e", "ef", "fe", "ff"), USB_FIELDS)
    custom_rules: tuple[Any, ...] = ()
    """The rules of the source "custom", as in the file."""
    kernel_config: Mapping[str, str] | None = None
    """The content of kconfig_file: options without CONFIG_."""


DEFAULT_WORKER_CONFIG = WorkerConfig()


class WorkerConfigError(Exception):
    """A configuration that cannot be used; the message has the key, its value and the valid values."""


def parse_worker_config(content: bytes) -> tuple[WorkerConfig, tuple[str, ...]]:
    """Return the configuration in a YAML or JSON file, and problems with its keys. Raises WorkerConfigError."""
    parser = _WorkerConfigParser()
    try:
        document = _mapping(load_first_document(content), "the file")
    except ValueError as error:
        raise WorkerConfigError(f"is {error}") from error
    changes: dict[str, Any] = {}
    for name, value in parser.known(document, {"core": parser.core, "sources": parser.sources}, ""):
        changes |= value(_mapping(document[name], name))
    return WorkerConfig()._replace(**changes), tuple(parser.problems)


class _WorkerConfigParser:
    """Parses sections and collects the problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def known(
        self, section: Mapping[str, Any], keys: Mapping[str, Any], path: str, ignored: Mapping[str, str] | None = None
    ) -> Iterator[tuple[str, Any]]:
        """Yield the names of known keys as written, each with its value in `keys`; other keys are problems.

        Go's decoder accepts names in any case.
        """
        canonical = {name.lower(): name for name in keys}
        reasons = {name.lower(): reason for name, reason in (ignored or {}).items()}
        for name in section:
            lower = str(name).lower()
            if lower in canonical:
                yield name, keys[canonical[lower]]
            elif section[name] is not None:
                reason = reasons.get(lower, "unknown key")
                self.problems.append(f"{path}{name} is ignored: {reason}")

    def core(self, section: Mapping[str, Any]) -> dict[str, Any]:
        """Parse the section `core`."""
        parsers: dict[str, Callable[[object, str], dict[str, Any]]] = {
            "labelWhiteList": lambda value, path: {"label_white_list": _expression(value, path)},
            "noPublish": lambda value, path: {"no_publish": _flag(value, path)},
            "featureSources": lambda value, path: {"feature_sources": self._chosen(value, path, FEATURE_SOURCES)},
            "sources": lambda value, path: {"label_sources": self._chosen(value, path, LABEL_SOURCES)},
            "labelSources": lambda value, path: {"label_sources": self._chosen(value, path, LABEL_SOURCES)},
            "noPublishFeatures": lambda value, path: {"no_publish_features": _texts(value, path)},
        }
        ignored = {
            "klog": "the settings logLevel and logFormat decide",
            "sleepInterval": "the setting interval decides, and changes are noticed at once",
            "noOwnerRefs": "the agent's object belongs to its pod and DaemonSet",
            "ownerRefs": "the agent's object belongs to its pod and DaemonSet",
        }
        changes: dict[str, Any] = {}
        # the deprecated key `sources` overrides `labelSources` (loadConfigFile)
        for name, parse in sorted(self.known(section, parsers, "core.", ignored), key=lambda pair: pair[0].lower()):
            if section[name] is not None:
                changes |= parse(section[name], f"core.{name}")
        return changes

    def sources(self, section: Mapping[str, Any]) -> dict[str, Any]:
        """Parse the section `sources`."""
        parsers: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]] | None] = {
            "cpu": self._cpu,
            "kernel": self._kernel,
            "pci": self._pci,
            "usb": self._usb,
            "custom": None,
        }
        ignored = {"fake": "zonewise has no source of test data"}
        changes: dict[str, Any] = {}
        for name, parse in self.known(section, parsers, "sources.", ignored):
            if parse is None:
                changes["custom_rules"] = _list(section[name], f"sources.{name}")
            else:
                changes |= parse(_mapping(section[name], f"sources.{name}"))
        return changes

    def _cpu(self, section: Mapping[str, Any]) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        for name, _ in self.known(section, {"cpuid": None}, "sources.cpu."):
            lists = {"attributeBlacklist": "cpuid_blacklist", "attributeWhitelist": "cpuid_whitelist"}
            path = f"sources.cpu.{name}"
            part = _mapping(section[name], path)
            for key, field in self.known(part, lists, f"{path}."):
                changes[field] = frozenset(_texts(part[key], f"{path}.{key}"))
        return changes

    def _kernel(self, section: Mapping[str, Any]) -> dict[str, Any]:
        parsers: dict[str, Callable[[object, str], dict[str, Any]]] = {
            "configOpts": lambda value, path: {"kernel_options": _texts(value, path)},
            "kconfigFile": lambda value, path: {"kconfig_file": _text(field_text(value), path)},
        }
        changes: dict[str, Any] = {}
        for name, parse in self.known(section, parsers, "sources.kernel."):
            changes |= parse(section[name], f"sources.kernel.{name}")
        return changes

    def _pci(self, section: Mapping[str, Any]) -> dict[str, Any]:
        return self._devices(section, "pci", PCI_FIELDS, DEFAULT_WORKER_CONFIG.pci)

    def _usb(self, section: Mapping[str, Any]) -> dict[str, Any]:
        return self._devices(section, "usb", USB_FIELDS, DEFAULT_WORKER_CONFIG.usb)

    def _devices(
        self, section: Mapping[str, Any], bus: str, fields: tuple[str, ...], default: DeviceLabels
    ) -> dict[str, Any]:
        labels = default
        for name, key in self.known(
            section, {"deviceClassWhitelist": "classes", "deviceLabelFields": "fields"}, f"sources.{bus}."
        ):
            path = f"sources.{bus}.{name}"
            values = _texts(section[name], path)
            if key == "classes":
                self.problems += _unquoted(section[name], path)
                labels = labels._replace(classes=tuple(text.lower() for text in values))
                continue
            if unknown := sorted(set(values).difference(fields)):
                self.problems.append(f"{path}: {', '.join(unknown)[:100]} is ignored: the keys are {', '.join(fields)}")
            # without a valid field the default applies (source/pci/pci.go, GetLabels)
            labels = labels._replace(fields=tuple(field for field in fields if field in values) or default.fields)
        return {bus: labels}

    def _chosen(self, value: object, path: str, names: frozenset[str]) -> frozenset[str]:
        """Apply a list such as ["all", "-pci"] from left to right (nfd-worker.go, configureCore)."""
        chosen: set[str] = set()
        for text in _texts(value, path):
            name = text.removeprefix("-")
            if text == "all":
                chosen |= names
            elif name not in names:
                self.problems.append(
                    f"{path}: {text[:100]!r} is ignored: the values are all, {', '.join(sorted(names))}"
                )
            elif text == name:
                chosen.add(name)
            else:
                chosen.discard(name)
        return frozenset(chosen)


def is_published(feature: str, patterns: Iterable[str]) -> bool:
    """Return whether no pattern in `noPublishFeatures` matches a raw feature's name (patternMatches)."""
    return not any(
        feature.startswith(pattern[:-1]) if pattern.endswith("*") else feature == pattern for pattern in patterns
    )


def _mapping(value: object, path: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise WorkerConfigError(f"{path}: must be a mapping, not {str(value)[:100]!r}")
    return cast("Mapping[str, Any]", value)


def _list(value: object, path: str) -> tuple[Any, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise WorkerConfigError(f"{path}: must be a list, not {str(value)[:100]!r}")
    return tuple(cast("list[Any]", value))


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise WorkerConfigError(f"{path}: {str(value)[:100]} must be a string; put it in quotes")
    return value


def _texts(value: object, path: str) -> tuple[str, ...]:
    return tuple(_text(field_text(element), f"{path}[{index}]") for index, element in enumerate(_list(value, path)))


def _unquoted(value: object, path: str) -> Iterator[str]:
    """Yield a problem for each number: YAML has dropped its leading zeros, or has read it as octal."""
    for index, element in enumerate(_list(value, path)):
        if not isinstance(element, str):
            yield f"{path}[{index}]: {str(element)[:100]} counts as {field_text(element)!r}; put it in quotes"


def _flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise WorkerConfigError(f"{path}: {str(value)[:100]!r} must be true or false")
    return value


def _expression(value: object, path: str) -> str:
    expression = _text(value, path)
    try:
        compile_regexp(expression)
    except RuleError as error:
        raise WorkerConfigError(f"{path}: {error}") from error
    return expression
