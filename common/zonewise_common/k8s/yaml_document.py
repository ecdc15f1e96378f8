"""Documents of YAML or JSON that people write: every damage is one kind of error."""

from __future__ import annotations

_MAX_SHOWN = 300


def load_yaml(content: bytes | str) -> object:
    """Return the value of a document. Raises ValueError, whose message says why it has none."""
    import yaml

    try:
        return yaml.safe_load(content)
    # constructors of PyYAML raise the last three for `!!int ""`, `!!bool x` and `!!timestamp x`
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError) as error:
        raise ValueError(f"no YAML: {' '.join(str(error).split())[:_MAX_SHOWN]}") from error
