"""White space as in Go: Unicode's White_Space. Python's str.strip() removes more."""

from __future__ import annotations

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""Characters that Go's strings.TrimSpace removes."""
