"""A unique name for each switch of a dump.

Managed switches of NVIDIA describe themselves as "MF0;NAME:MODEL/U1", and the chips of a director as
"MF0;NAME:MODEL/L01/U1". The name is NAME if no other switch has it, else all of the text behind "MF0;". A description
with spaces is a model, not a name. Such a switch, and each switch whose text is not unique, is named by its GUID. A
text that ends like a GUID is not a name either, so it never equals such a name.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_GUID_AT_END = re.compile("[0-9a-f]{16}$")
_MANAGED = re.compile(r"[^;:\s]+;(([^;:\s]+):[^;\s]+)")


def switch_names(descriptions: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each switch by its GUID of 16 hexadecimal digits."""
    candidates = {guid: _candidates(text) for guid, text in descriptions.items()}
    counts = Counter(name for names in candidates.values() for name in names)
    return {
        guid: next((name for name in names if counts[name] == 1), ".".join([*names[:1], guid]))
        for guid, names in candidates.items()
    }


def _candidates(description: str) -> tuple[str, ...]:
    """Return possible names, the best first; none if the description is not a name."""
    names: tuple[str, ...] = ()
    if managed := _MANAGED.fullmatch(description):
        names = (managed[2], re.sub("[:/]", ".", managed[1]))
    elif description and not re.search(r"\s", description):
        names = (description,)
    return () if any(_GUID_AT_END.search(name) for name in names) else names
