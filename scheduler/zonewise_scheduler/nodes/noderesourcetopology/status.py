"""Answers of the plugin."""

from typing import Literal, NamedTuple, Self

MAX_SCORE = 100


class FilterStatus(NamedTuple):
    """Whether a node stays in the choice."""

    outcome: Literal["passes", "refuses", "crashes"]
    message: str = ""
    """The plugin's own words, as in the pod's status; those of Go's runtime where it crashes."""

    @property
    def passes(self) -> bool:
        """Tell whether the pod may go to the node."""
        return self.outcome == "passes"


class ScoreStatus(NamedTuple):
    """How good a node is."""

    outcome: Literal["scored", "invalid", "crashes"]
    """"invalid": outside of 0..100, for which kube-scheduler fails the pod's whole attempt."""
    score: int = 0
    message: str = ""


class PanicError(Exception):
    """The plugin's process dies here; the text is Go's."""

    @classmethod
    def index_out_of_range(cls, index: int, length: int) -> Self:
        """Return that of a look beyond the end of a list."""
        return cls(f"runtime error: index out of range [{index}] with length {length}")
