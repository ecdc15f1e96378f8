"""Documents of YAML or JSON that people write: all errors in them raise one exception type."""

from __future__ import annotations

_MAX_SHOWN = 300


def load_yaml(content: bytes | str) -> object:
    """Return the value of a document. Raises ValueError with the reason if it cannot be parsed."""
    import yaml

    try:
        return yaml.safe_load(content)
    # constructors of PyYAML raise the last three for `!!int ""`, `!!bool x` and `!!timestamp x`
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError) as error:
        raise ValueError(f"no YAML: {' '.join(str(error).split())[:_MAX_SHOWN]}") from error
