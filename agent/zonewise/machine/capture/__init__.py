"""Captures: the files that discovery reads, without identifiers, as an archive that replays to the same machine."""
