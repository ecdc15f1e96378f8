"""Documents of YAML or JSON that people write: all errors in them raise one exception type."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_SHOWN = 300


def load_yaml(content: bytes | str) -> object:
    """Return the value of the only document. Raises ValueError with the reason if it cannot be parsed."""
    import yaml

    return _parsed(lambda: yaml.safe_load(content))


def load_first_document(content: bytes | str) -> object:
    """Return the value of the first document, as Go's decoder does; the others are not read. Raises ValueError."""
    import yaml

    return _parsed(lambda: next(iter(yaml.safe_load_all(content)), None))


def _parsed(parse: Callable[[], object]) -> object:
    import yaml

    try:
        return parse()
    # constructors of PyYAML raise the last three for `!!int ""`, `!!bool x` and `!!timestamp x`
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError) as error:
        raise ValueError(f"no YAML: {' '.join(str(error).split())[:_MAX_SHOWN]}") from error
