"""The mounted configuration: a file, one of several in a directory, and one that is damaged while the agent runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zonewise.gfd.config_files import DevicePluginConfigFile
from zonewise.gfd.types import DMI_PRODUCT, NO_DEVICE_PLUGIN_CONFIG, DevicePluginConfig
from zonewise.machine.files import DirectoryFiles

if TYPE_CHECKING:
    from pathlib import Path


def config_file(path: object, name: str = "", strategy: str = "") -> DevicePluginConfigFile:
    return DevicePluginConfigFile(DirectoryFiles("/"), str(path), name, strategy)


def test_without_a_configuration() -> None:
    """Without a configuration, nothing is shared; the strategy may be a setting."""
    assert config_file("").read() == (NO_DEVICE_PLUGIN_CONFIG, ())
    assert config_file("", strategy="single").read()[0] == DevicePluginConfig("single")


def test_the_setting_overrides_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("flags: {migStrategy: mixed}")
    assert config_file(tmp_path / "config.yaml").read()[0] == DevicePluginConfig("mixed")
    assert config_file(tmp_path / "config.yaml", strategy="none").read()[0] == DevicePluginConfig("none")


@pytest.mark.parametrize(
    ("names", "name", "strategy"),
    [
        (("mixed", "single"), "single", "single"),
        (("mixed", "single", "default"), "", "none"),
        (("mixed",), "", "mixed"),
        (("mixed", "single"), "", None),
        (("mixed",), "other", None),
        ((), "", None),
    ],
)
def test_directory_of_a_configmap(names: tuple[str, ...], name: str, strategy: str | None, tmp_path: Path) -> None:
    """The kubelet mounts links to ..data. The configuration is the named one, "default", or the only one."""
    (tmp_path / "..data").mkdir()
    for file in names:
        content = "" if file == "default" else f"flags: {{migStrategy: {file}}}"
        (tmp_path / "..data" / file).write_text(content)
        (tmp_path / file).symlink_to(f"..data/{file}")
    config, problems = config_file(tmp_path, name).read()
    assert (config and config.mig_strategy) == strategy
    listed = ", ".join(sorted(names)) or "nothing"
    message = f'the directory contains no configuration "{name or "default"}", but {listed}'
    assert list(problems) == ([] if config else [f"{tmp_path}: {message}; GFD's labels are left out"])


@pytest.mark.parametrize(("selected", "strategy"), [("single", "single"), ("", "mixed"), ("other", None), (None, None)])
def test_the_node_selects_before_the_setting(selected: str | None, strategy: str | None, tmp_path: Path) -> None:
    """An unknown name is an error even if other configurations exist; so is a Node that cannot be read."""
    for name in ("mixed", "single", "default"):
        (tmp_path / name).write_text(f"flags: {{migStrategy: {'none' if name == 'default' else name}}}")
    files = DirectoryFiles("/")
    config, problems = DevicePluginConfigFile(files, str(tmp_path), "mixed", selected=lambda: selected).read()
    assert (config and config.mig_strategy) == strategy
    assert bool(problems) == (strategy is None)
    assert DevicePluginConfigFile(files, str(tmp_path / "single"), selected=lambda: None).read()[1] == ()


def test_the_last_good_content_survives_damage(tmp_path: Path) -> None:
    """At the start, no good content exists, so GFD's labels are unknown. A repaired file applies at once."""
    path = tmp_path / "config.yaml"
    file = config_file(path)
    assert file.read() == (None, (f"{path}: cannot be read: No such file or directory; GFD's labels are left out",))
    path.write_text("flags: {migStrategy: mixed}")
    good = file.read()
    assert good == (DevicePluginConfig("mixed"), ())
    path.write_text("version: v3")
    problem = f"{path}: version: 'v3' is not supported; only v1 is; its last valid content remains in force"
    assert file.read() == (good[0], (problem,))
    path.write_text("")
    assert file.read() == (DevicePluginConfig("none"), ())


@pytest.mark.parametrize("by_setting", [False, True])
def test_the_file_with_the_type_of_the_machine(tmp_path: Path, by_setting: bool) -> None:
    kind, config = tmp_path / "type", tmp_path / "config.yaml"
    named = tmp_path / "other" if by_setting else kind
    config.write_text(f"flags: {{gfd: {{machineTypeFile: {named}}}}}")
    reader = DevicePluginConfigFile(DirectoryFiles("/"), str(config), machine_type_file=str(kind) if by_setting else "")
    read, problems = reader.read()
    assert (read and read.machine_type) == ""
    assert problems == (f"{kind}: cannot be read: No such file or directory; nvidia.com/gpu.machine is unknown",)
    kind.write_text("DGX H100\n")
    read, problems = reader.read()
    assert (read and read.machine_type, problems) == ("DGX H100", ())


def test_the_default_file_is_a_fact_of_the_firmware(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(f"flags: {{gfd: {{machineTypeFile: {DMI_PRODUCT}}}}}")
    config, problems = config_file(tmp_path / "config.yaml").read()
    assert config is not None
    assert (config.machine_type, problems) == (None, ())
