"""Settings from four sources: flags, environment, file, defaults. The first source that defines a setting wins.

The other names of a setting derive from its key. `publish.labels` in the file is `--publish-labels` on the
command line and `ZONEWISE_PUBLISH_LABELS` in the environment.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from zonewise_common.k8s.yaml_document import load_yaml

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

PREFIX = "ZONEWISE_"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
"""The environment variable for the path of the settings file, used if there is no flag."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class SettingsError(Exception):
    """An invalid setting; the message contains its source, name and value, and the valid values."""


class Option(NamedTuple):
    """One setting, with its names."""

    key: str
    """The key in the file: camelCase, with dots between levels."""
    parse: Callable[[object], Any]
    """Function that parses the value. Raises ValueError with the valid values."""
    help: str
    metavar: str = "TEXT"
    environment: tuple[str, ...] = ()
    """Further environment variables, which manifests set through the Downward API."""

    @property
    def field(self) -> str:
        """Return the name of the field that holds its value."""
        return _field(self.key)

    @property
    def flag(self) -> str:
        """Return its name on the command line."""
        return "--" + self.field.replace("_", "-")

    @property
    def variables(self) -> tuple[str, ...]:
        """Return its environment variables; the first that is set counts."""
        return (PREFIX + self.field.upper(), *self.environment)


class FileOption(NamedTuple):
    """A structured setting, which only the file can contain."""

    key: str
    parse: Callable[[object], Any]
    """As that of an Option."""
    help: str


class Options:
    """All settings of one program."""

    def __init__(self, options: Sequence[Option], file_options: Sequence[FileOption] = ()) -> None:
        self.file_options = file_options
        self._options = options
        self._by_key = {option.key: option for option in options}
        self._groups = {option.key.partition(".")[0] for option in options if "." in option.key}
        self._parsers = {option.key: option.parse for option in file_options}

    def __iter__(self) -> Iterator[Option]:
        return iter(self._options)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare each option as an argument."""
        for option in self._options:
            parser.add_argument(option.flag, dest=option.field, metavar=option.metavar, help=option.help)

    def flag_values(self, arguments: Namespace) -> dict[str, str | None]:
        """Return the flags of parsed arguments by field, None for absent ones."""
        return {option.field: getattr(arguments, option.field) for option in self._options}

    def read(
        self, flags: Mapping[str, str | None], environment: Mapping[str, str], content: str | None, file: str
    ) -> dict[str, Any]:
        """Return, by field, the values of all settings that any source defines.

        `flags` are those of flag_values(). `content` is the text of the settings file or None, and `file` is its name
        in messages. Raises SettingsError.
        """
        values = dict(self._read_file(content, file)) if content is not None else {}
        for option in self._options:
            name = next((name for name in option.variables if environment.get(name)), None)
            if name is not None:
                values[option.field] = _parsed(option.parse, environment[name], f"environment: {name}")
            text = flags.get(option.field)
            if text is not None:
                values[option.field] = _parsed(option.parse, text, option.flag)
        return values

    def _read_file(self, content: str, file: str) -> Iterable[tuple[str, Any]]:
        try:
            document = load_yaml(content)
        except ValueError as error:
            raise SettingsError(f"{file}: {error}") from error
        if document is None:
            return
        if not isinstance(document, dict):
            raise SettingsError(f"{file}: must be a mapping of settings, not {type(document).__name__}")
        for key, value in self._flat(cast("Mapping[Any, Any]", document)):
            if key in self._parsers:
                try:
                    yield _field(key), self._parsers[key](value)
                except ValueError as error:
                    raise SettingsError(f"{file}: {error}") from error
            elif key in self._by_key:
                yield self._by_key[key].field, _parsed(self._by_key[key].parse, value, f"{file}: {key}")
            else:
                raise SettingsError(f"{file}: {key}: unknown key; {self._nearest(key)}")

    def _flat(self, document: Mapping[Any, Any]) -> Iterable[tuple[str, Any]]:
        for key, value in document.items():
            if key in self._groups and isinstance(value, dict):
                yield from ((f"{key}.{name}", inner) for name, inner in cast("Mapping[Any, Any]", value).items())
            else:
                yield str(key), value

    def _nearest(self, key: str) -> str:
        import difflib

        known = [*self._by_key, *self._parsers]
        near = difflib.get_close_matches(key, known, 1)
        return f"did you mean {near[0]}?" if near else f"the keys are {', '.join(known)}"


def read_settings_file(path: str | None, default: str) -> str | None:
    """Return the text of the settings file, or None if the default file does not exist. Raises SettingsError."""
    try:
        with open(path or default, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        if path is None:
            return None
        raise SettingsError(f"{path}: no such file") from None
    except OSError as error:
        raise SettingsError(f"{path or default}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path or default}: is not text: {error}") from error


def settings_digest(settings: tuple[object, ...]) -> str:
    """Return a hash of settings, so that a metric shows whether replicas and nodes have equal settings."""
    return hashlib.sha256(repr(settings).encode()).hexdigest()[:16]


# --- parsers of values


def text(value: object) -> str:
    """Parse any text."""
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return value


def boolean(value: object) -> bool:
    """Parse true or false, yes or no, 1 or 0."""
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in known:
        raise ValueError("must be true or false")
    return known[value.lower()]


def duration(value: object) -> float:
    """Return the seconds of 30, "30", "30s", "500ms", "5m" or "1h"; raise ValueError for others and below 0.1 s."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|)", str(value)) if not isinstance(value, bool) else None
    if match is None:
        raise ValueError('must be a duration, such as "30s", "5m" or "500ms"')
    seconds = float(match[1]) * _UNITS[match[2] or "s"]
    if seconds < 0.1:
        raise ValueError("must be at least 100ms")
    return seconds


def whole_number(minimum: int, maximum: int) -> Callable[[object], int]:
    """Return a parser of integers within limits."""

    def parse(value: object) -> int:
        number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value) else value
        if not isinstance(number, int) or isinstance(number, bool) or not minimum <= number <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return number

    return parse


def choice(*names: str) -> Callable[[object], str]:
    """Return a parser that accepts only these names."""

    def parse(value: object) -> str:
        if value is False and "off" in names:
            return "off"  # YAML 1.1 reads off as false
        if value not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return str(value)

    return parse


def listen_address(value: object) -> str:
    """Parse an address at which to listen."""
    if not isinstance(value, str) or not re.fullmatch(r"|(\[[0-9a-fA-F:]+\]|[^:\s]*):[0-9]{1,5}", value):
        raise ValueError('must be ADDRESS:PORT, :PORT, or "" for no server')
    if value and int(value.rpartition(":")[2]) > 65535:
        raise ValueError("must have a port up to 65535")
    return value


def _field(key: str) -> str:
    """Return the field name of a key: job_kinds for jobKinds, tls_cert for tls.cert."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower().replace(".", "_")


def _parsed(parse: Callable[[object], Any], value: object, source: str) -> object:
    if isinstance(value, str) and "\0" in value:  # no file, address or name contains one
        raise SettingsError(f"{source}: {value!r} must not contain a NUL character")
    try:
        return parse(value)
    except ValueError as error:
        raise SettingsError(f"{source}: {value!r} {error}") from error
