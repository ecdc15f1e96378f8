"""Settings from four places; the first that has one wins: flags, environment, file, defaults.

Every setting has one name, from which the others follow: `publish.labels` in the file is `--publish-labels` on the
command line and `ZONEWISE_PUBLISH_LABELS` in the environment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

PREFIX = "ZONEWISE_"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
"""Names the settings file where no flag does."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class SettingsError(Exception):
    """A setting that cannot be used: says where it is from, its name, its value, and what it may be."""


class Option(NamedTuple):
    """One setting by its names."""

    key: str
    """In the file: camelCase, with a dot between levels."""
    parse: Callable[[object], Any]
    """Raises ValueError, saying what the value may be."""
    help: str
    metavar: str = "TEXT"
    environment: tuple[str, ...] = ()
    """Further names in the environment, which the Downward API of a manifest customarily sets."""

    @property
    def field(self) -> str:
        """Return the name among the values."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.key).lower().replace(".", "_")

    @property
    def flag(self) -> str:
        """Return the name on the command line."""
        return "--" + self.field.replace("_", "-")

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names in the environment, the first that is set counts."""
        return (PREFIX + self.field.upper(), *self.environment)


class Options:
    """All settings of one program."""

    def __init__(self, options: Sequence[Option], nested: Mapping[str, Callable[[object], Any]] | None = None) -> None:
        """Take the options, and by key the parsers of what is in the file only, having a structure of its own."""
        self._options = options
        self._by_key = {option.key: option for option in options}
        self._groups = {option.key.partition(".")[0] for option in options if "." in option.key}
        self._nested = nested or {}

    def __iter__(self) -> Iterator[Option]:
        return iter(self._options)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare each option as an argument."""
        for option in self._options:
            parser.add_argument(option.flag, dest=option.field, metavar=option.metavar, help=option.help)

    def flag_values(self, arguments: Namespace) -> dict[str, str | None]:
        """Return the flags by field, None where not given, out of what was parsed."""
        return {option.field: getattr(arguments, option.field) for option in self._options}

    def read(
        self, flags: Mapping[str, str | None], environment: Mapping[str, str], content: str | None, file: str
    ) -> dict[str, Any]:
        """Return the values that are set anywhere, by field.

        `flags` are those of given(); `content` is the text of the file `place`, None where there is none. Raises
        SettingsError.
        """
        found = dict(self._of_file(content, file)) if content is not None else {}
        for option in self._options:
            name = next((name for name in option.variables if environment.get(name)), None)
            if name is not None:
                found[option.field] = _parsed(option.parse, environment[name], f"environment: {name}")
            given = flags.get(option.field)
            if given is not None:
                found[option.field] = _parsed(option.parse, given, option.flag)
        return found

    def _of_file(self, content: str, place: str) -> Iterable[tuple[str, Any]]:
        import yaml

        try:
            document: object = yaml.safe_load(content)
        except yaml.YAMLError as error:
            raise SettingsError(f"{place}: no YAML: {' '.join(str(error).split())}") from error
        if document is None:
            return
        if not isinstance(document, dict):
            raise SettingsError(f"{place}: must be settings by name, not {type(document).__name__}")
        for key, value in self._flat(cast("Mapping[Any, Any]", document)):
            if key in self._nested:
                try:
                    yield key, self._nested[key](value)
                except ValueError as error:
                    raise SettingsError(f"{place}: {error}") from error
            elif key in self._by_key:
                yield self._by_key[key].field, _parsed(self._by_key[key].parse, value, f"{place}: {key}")
            else:
                raise SettingsError(f"{place}: {key}: unknown key; {self._nearest(key)}")

    def _flat(self, document: Mapping[Any, Any]) -> Iterable[tuple[str, Any]]:
        for key, value in document.items():
            if key in self._groups and isinstance(value, dict):
                yield from ((f"{key}.{name}", inner) for name, inner in cast("Mapping[Any, Any]", value).items())
            else:
                yield str(key), value

    def _nearest(self, key: str) -> str:
        import difflib

        known = [*self._by_key, *self._nested]
        near = difflib.get_close_matches(key, known, 1)
        return f"did you mean {near[0]}?" if near else f"there is {', '.join(known)}"


def read_settings_file(path: str | None, default: str) -> str | None:
    """Return the text of the settings file; None where there is none and none was named. Raises SettingsError."""
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
        raise SettingsError(f"{path or default}: is no text: {error}") from error


# --- what values may be


def text(value: object) -> str:
    """Take any text."""
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def boolean(value: object) -> bool:
    """Take true or false, yes or no, 1 or 0."""
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in known:
        raise ValueError("must be true or false")
    return known[value.lower()]


def duration(value: object) -> float:
    """Return seconds of 30, "30", "30s", "500ms", "5m" or "1h"; raise ValueError for others, and below 0.1 s."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|)", str(value)) if not isinstance(value, bool) else None
    if found is None:
        raise ValueError('must be a duration, such as "30s", "5m" or "500ms"')
    seconds = float(found[1]) * _UNITS[found[2] or "s"]
    if seconds < 0.1:
        raise ValueError("must be at least 100ms")
    return seconds


def whole_number(minimum: int, maximum: int) -> Callable[[object], int]:
    """Return what takes a whole number within limits."""

    def parse(value: object) -> int:
        number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value) else value
        if not isinstance(number, int) or isinstance(number, bool) or not minimum <= number <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return number

    return parse


def choice(*names: str) -> Callable[[object], str]:
    """Return what takes one of some names."""

    def parse(value: object) -> str:
        if value is False and "off" in names:
            return "off"  # YAML 1.1 reads off as false
        if value not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return str(value)

    return parse


def listen_address(value: object) -> str:
    """Take where to listen."""
    if not isinstance(value, str) or not re.fullmatch(r"|(\[[0-9a-fA-F:]+\]|[^:\s]*):[0-9]{1,5}", value):
        raise ValueError('must be ADDRESS:PORT, :PORT, or "" for no server')
    if value and int(value.rpartition(":")[2]) > 65535:
        raise ValueError("must have a port up to 65535")
    return value


def _parsed(parse: Callable[[object], Any], value: object, place: str) -> object:
    try:
        return parse(value)
    except ValueError as error:
        raise SettingsError(f"{place}: {value!r} {error}") from error
