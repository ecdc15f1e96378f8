"""The chart: the templates of each part, and its values with their documentation and schema."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from tools.chart.guards import Components, Guarded, Json, Mapping, Template, compare, evaluate
from tools.chart.renderings import PARTS, Component, Object, Part, components_of, default_components, renderings
from tools.chart.templates import camel_case, write_template
from zonewise.daemon.settings import OPTIONS as AGENT_OPTIONS
from zonewise_scheduler.controller.settings import OPTIONS as CONTROLLER_OPTIONS
from zonewise_scheduler.extender.settings import OPTIONS as EXTENDER_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_common.service.options import Options

NAME = "zonewise"
_NOTES = """\
{{- if eq .Release.Namespace "zonewise" }}
The release is in the namespace of the chart's objects, so the chart has neither that namespace nor its labels. Where
the cluster enforces Pod Security Standards, the agent needs them:

  kubectl label namespace zonewise pod-security.kubernetes.io/enforce=privileged

{{ end -}}
See what each zone has available:

  kubectl get noderesourcetopologies
"""
_HASH = re.compile(r"-[0-9a-z]{10}$")
"""The hash that kustomize appends to the name of a generated ConfigMap."""
_SETTINGS = {"agent": AGENT_OPTIONS, "scheduler": EXTENDER_OPTIONS, "queue": CONTROLLER_OPTIONS}
"""The settings of each part's program."""
OWN_IMAGES = ("zonewise", "zonewise-scheduler")


class PartTemplate(NamedTuple):
    """A part of the chart."""

    part: Part
    components: list[Component]
    objects: list[Guarded]
    images: dict[str, str]
    """Images by the key of their values: "image", or "kubeScheduler" for another program."""

    def defaults(self) -> Components:
        """Return the components that are enabled by default."""
        paths = default_components(self.part)
        return frozenset(component.name for component in self.components if component.path in paths)

    def objects_with(self, components: Components) -> list[Object]:
        """Return the objects for a choice of components, as the chart renders them with default values."""
        return [evaluate(item.node, components) for item in self.objects if item.condition.holds(components)]


def read_part(part: Part) -> PartTemplate:
    """Return a part of the chart, as kustomize renders its manifests.

    Raises ValueError if components interact in a way that a chart cannot express.
    """
    components = components_of(part)
    images: dict[str, str] = {}
    rendered = {
        names: {_identity(item): _parametrized(part, item, images) for item in map(without_hash, objects)}
        for names, objects in renderings(part).items()
    }
    [everything] = compare(rendered, [component.name for component in components])
    assert isinstance(everything.node, Mapping)  # noqa: S101 -- for the type checker
    objects = [value for field in everything.node.fields for value in field.values]
    return PartTemplate(part, components, objects, images)


def without_hash(item: Object) -> Object:
    """Return an object without hashes in the names of its ConfigMaps: in a chart, an annotation contains the hash."""
    item = copy.deepcopy(item)
    if item["kind"] == "ConfigMap":
        item["metadata"]["name"] = _HASH.sub("", item["metadata"]["name"])
    for volume in _pod_of(item).get("volumes", ()):
        if "configMap" in volume:
            volume["configMap"]["name"] = _HASH.sub("", volume["configMap"]["name"])
    return item


def chart_files(parts: list[PartTemplate], version: str, registry: str) -> Iterator[tuple[str, str]]:
    """Yield (path, content) of each file of the chart, for a version of zonewise and the registry of its images."""
    yield "Chart.yaml", _chart(version)
    yield "values.yaml", write_values(parts, registry)
    yield "values.schema.json", json.dumps(schema(parts), indent=1) + "\n"
    yield "templates/NOTES.txt", _NOTES
    for item in parts:
        yield f"templates/{item.part.name}.yaml", write_template(item.part.name, item.objects)


def semantic(version: str) -> str:
    """Return a version in Helm's notation: 0.1.0.dev0 becomes 0.1.0-dev0."""
    return re.sub(r"^(\d+\.\d+\.\d+)\.?(?=[a-z])", r"\1-", version)


def write_values(parts: list[PartTemplate], registry: str = "") -> str:
    """Return values.yaml, with a description of each value."""
    lines = ["# The values of the chart. Each component does the same as the component of that name in manifests/."]
    for item in parts:
        lines += ["", f"{item.part.name}:"]
        for key, value, text in _options(item, registry):
            lines.append(f"  # {text}")
            if key != "components":
                lines.append(f"  {key}: {json.dumps(value)}")
                continue
            lines.append("  components:")
            for component in item.components:
                lines.append(f"    # {component.summary}.{_after(component)}")
                lines.append(f"    {camel_case(component.name)}: {json.dumps(value[camel_case(component.name)])}")
    return "\n".join(lines) + "\n"


def schema(parts: list[PartTemplate]) -> dict[str, Any]:
    """Return the JSON schema of the values, which Helm validates: an unknown key is an error."""
    image = _closed({"repository": {"type": "string", "minLength": 1}, "tag": {"type": "string"}})
    types = {"enabled": {"type": "boolean"}, "resources": {"type": "object"}}
    properties: dict[str, Any] = {"global": {"type": "object"}}  # reserved by Helm
    for item in parts:
        switches = {camel_case(component.name): {"type": "boolean"} for component in item.components}
        settings = _settings_schema(_SETTINGS[item.part.name])
        named = types | {"settings": settings, "components": _closed(switches)} | dict.fromkeys(item.images, image)
        properties[item.part.name] = _closed(
            {key: {**named[key], "description": text} for key, _, text in _options(item)}
        )
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_closed(properties)}


def _settings_schema(options: Options) -> dict[str, Any]:
    """Return the schema of a settings file: an unknown key would stop each pod that starts with it.

    Settings of a group may be nested, or have the group's name before a dot.
    """
    keys = sorted([*(option.key for option in options), *(option.key for option in options.file_options)])
    groups: dict[str, dict[str, Any]] = {}
    for key in keys:
        group, dot, name = key.partition(".")
        if dot:
            groups.setdefault(group, {})[name] = {}
    properties: dict[str, Any] = {key: {} for key in keys}
    return _closed(properties | {group: _closed(names) for group, names in groups.items()})


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _options(item: PartTemplate, registry: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield (key, default, description) of each value of a part."""
    yield "enabled", item.part.enabled, f"Whether to install the objects of manifests/{item.part.default}."
    for key, image in item.images.items():
        repository, _, tag = image.rpartition(":")
        if repository in OWN_IMAGES:
            yield (
                key,
                {"repository": f"{registry}{repository}", "tag": ""},
                "The image. By default, the tag is the chart's version.",
            )
        else:
            yield (
                key,
                {"repository": repository, "tag": tag},
                "The image of the second container. Its version must be that of the cluster.",
            )
    yield "resources", {}, "Requests and limits of the container, which override those in manifests/."
    yield "settings", {}, f"Settings that override those in {item.part.settings}; see docs/reference/settings.md."
    chosen = item.defaults()
    switches = {camel_case(component.name): component.name in chosen for component in item.components}
    yield "components", switches, "The components to add, as with kustomize."


def _after(component: Component) -> str:
    return f" Only with {camel_case(component.prerequisite)}." if component.prerequisite else ""


def _chart(version: str) -> str:
    return yaml.safe_dump({
        "apiVersion": "v2",
        "name": NAME,
        "description": "Makes a Kubernetes cluster fit jobs to hardware",
        "type": "application",
        "version": semantic(version),
        "appVersion": version,
        "kubeVersion": ">=1.33.0-0",
    }, sort_keys=False)  # fmt: skip


def _identity(item: Object) -> str:
    metadata = item["metadata"]
    return "/".join([item["apiVersion"], item["kind"], metadata.get("namespace", ""), metadata["name"]])


def _parametrized(part: Part, item: Object, images: dict[str, str]) -> Object:
    """Return an object in which the chart's values replace what kustomize rendered."""
    pod = _pod_of(item)
    for container in pod.get("containers", ()):
        name = container["image"].rpartition(":")[0]
        key = "image" if name in OWN_IMAGES else camel_case(name.rpartition("/")[2])
        images[key] = container["image"]
        container["image"] = Template(_image(part, key), container["image"])
        if key == "image":
            container["resources"] = Template(_resources(part, container["resources"]), container["resources"])
    if any("configMap" in volume for volume in pod.get("volumes", ())):
        annotations = item["spec"]["template"]["metadata"].setdefault("annotations", {})
        annotations["checksum/settings"] = Template(
            f"{{{{ list .Chart.Version .Values.{part.name} | toJson | sha256sum }}}}", None
        )
    if item["kind"] == "CustomResourceDefinition":
        # when a definition is deleted, the API server deletes all its objects, including those of other programs
        item["metadata"].setdefault("annotations", {})["helm.sh/resource-policy"] = "keep"
    if item["kind"] == "ConfigMap" and part.settings in item["data"]:
        text = item["data"][part.settings]
        item["data"][part.settings] = Template(_settings(part, text), text)
    return item


def _image(part: Part, key: str) -> str:
    value = f".Values.{part.name}.{key}"
    default = " | default .Chart.AppVersion" if key == "image" else ""
    return f'"{{{{ {value}.repository }}}}:{{{{ {value}.tag{default} }}}}"'


def _resources(part: Part, default: Json) -> str:
    value = f".Values.{part.name}.resources"
    merged = f"mergeOverwrite (fromJson `{json.dumps(default)}`) (deepCopy {value})"
    return f"{{{{- toYaml ({merged}) | nindent @INDENT@ }}}}"


def _settings(part: Part, text: str) -> str:
    """Return the settings unchanged, with their comments, or merged with those of the values."""
    value = f".Values.{part.name}.settings"
    merged = f"toYaml (mergeOverwrite (fromYaml $settings) (deepCopy {value}))"
    return (
        f"|\n{{{{- $settings := {json.dumps(text)} }}}}"
        f"\n{{{{- if {value} }}}}\n{{{{- {merged} | nindent @INDENT@ }}}}"
        '\n{{- else }}\n{{- $settings | trimSuffix "\\n" | nindent @INDENT@ }}\n{{- end }}'
    )


def _pod_of(item: Object) -> Json:
    if item["kind"] not in ("DaemonSet", "Deployment"):
        return {}
    return item["spec"]["template"]["spec"]


def all_parts() -> list[PartTemplate]:
    """Return all parts of the chart."""
    return [read_part(part) for part in PARTS]
