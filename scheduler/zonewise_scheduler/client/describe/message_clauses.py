"""Splits the message of a waiting job into the clauses that a reader sees as lines; web/assets/job_view.js does too."""

from __future__ import annotations

import re

_OPENING = re.compile(
    r"(needs|flavor|most capacity|on node|has to|would|waits for|is|could|cannot|starts) |\S+/\S+ is before it "
)
"""The beginnings of clauses in backfill/explanation/message.py and controller/status/pending_note.py."""


def message_clauses(message: str) -> list[str]:
    """Return the clauses of a message, so that what is needed stands in one line with what is available.

    Both a clause and the parts of a clause are separated by "; ", since the message is a sentence in conditions.
    """
    clauses: list[str] = []
    for part in message.split("; "):
        if clauses and _continues(clauses[-1], part):
            clauses[-1] += f"; {part}"
        else:
            clauses.append(part)
    return clauses


def _continues(clause: str, part: str) -> bool:
    return part.startswith("excluded: ") or ("needs " in clause and _OPENING.match(part) is None)
