"""The bill of materials of an image, as CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/).

It lists the Debian packages of debian.lock.json and the Python packages of uv.lock, each with the SHA-256 of its file.
"""

from __future__ import annotations

import tomllib
import uuid
from email.parser import HeaderParser
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from pathlib import Path

    from tools.image.lock import Lock, Package

Json = dict[str, Any]


def bill_of_materials(name: str, version: str, lock: Lock, architecture: str, installed: list[Path], uv: Path) -> Json:
    """Return the document of an image with these installed dist-info directories; `uv` is the file uv.lock.

    Raises ValueError if an installed wheel is not in uv.lock.
    """
    digests = _wheel_digests(uv)
    components = [
        *(_debian_component(package, lock.suite) for package in lock.packages[architecture]),
        *(_python_component(metadata, digests) for metadata in sorted(installed)),
    ]
    purl = f"pkg:oci/{name}?arch={architecture}&tag={version}"
    text = purl + "".join(sorted(component["bom-ref"] for component in components))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}",
        "version": 1,
        "metadata": {
            "component": {"type": "container", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        },
        "components": components,
        "dependencies": [{"ref": purl, "dependsOn": sorted(component["bom-ref"] for component in components)}],
    }


def _debian_component(package: Package, suite: str) -> Json:
    version = quote(package.version, safe="~.-")
    purl = f"pkg:deb/debian/{quote(package.name)}@{version}?arch={package.architecture}&distro={suite}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": package.sha256}],
    }


def _python_component(metadata: Path, digests: dict[tuple[str, str, frozenset[str]], str]) -> Json:
    fields = HeaderParser().parsestr((metadata / "METADATA").read_text())
    name, version = _normalized(fields["Name"]), fields["Version"]
    purl = f"pkg:pypi/{name}@{version}"
    component: Json = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    license_ = fields.get("License-Expression")
    if license_:
        component["licenses"] = [{"expression": license_}]
    if name == "zonewise":
        return component | {"type": "application"}
    tags = frozenset(HeaderParser().parsestr((metadata / "WHEEL").read_text()).get_all("Tag", []))
    if (name, version, tags) not in digests:
        raise ValueError(f"uv.lock has no wheel of {name} {version} for {', '.join(sorted(tags))}")
    return component | {"hashes": [{"alg": "SHA-256", "content": digests[name, version, tags]}]}


def _wheel_digests(lock: Path) -> dict[tuple[str, str, frozenset[str]], str]:
    """Return the SHA-256 of each wheel in uv.lock, by name, version and tags."""
    return {
        (package["name"], package["version"], _tags(wheel["url"])): wheel["hash"].removeprefix("sha256:")
        for package in tomllib.loads(lock.read_text())["package"]
        for wheel in package.get("wheels", ())
    }


def _tags(url: str) -> frozenset[str]:
    """Return the tags of a wheel from its file name: `name-version-py2.py3-none-any.whl` has two (PEP 425)."""
    pythons, abis, platforms = url.rpartition("/")[2].removesuffix(".whl").split("-")[-3:]
    return frozenset(
        f"{python}-{abi}-{platform}"
        for python in pythons.split(".")
        for abi in abis.split(".")
        for platform in platforms.split(".")
    )


def _normalized(name: str) -> str:
    """Return the name in PyPI's normalized form (PEP 503)."""
    return name.lower().replace("_", "-").replace(".", "-")
