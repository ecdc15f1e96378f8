"""Results of the plugin."""

from typing import Literal, NamedTuple, Self

MAX_SCORE = 100


class FilterStatus(NamedTuple):
    """Whether a node passes the filter."""

    outcome: Literal["passes", "rejects", "crashes"]
    message: str = ""
    """The plugin's message, as in the pod's status; the message of Go's runtime if it crashes."""

    @property
    def passes(self) -> bool:
        """Return whether the node passes the filter."""
        return self.outcome == "passes"


class ScoreStatus(NamedTuple):
    """The score of a node."""

    outcome: Literal["scored", "invalid", "crashes"]
    """"invalid": outside 0..100, in which case kube-scheduler fails the scheduling of the pod."""
    score: int = 0
    message: str = ""


class PanicError(Exception):
    """The plugin's process panics; the message is Go's."""

    @classmethod
    def index_panic(cls, index: int, length: int) -> Self:
        """Return the panic for an index beyond the end of a list."""
        return cls(f"runtime error: index out of range [{index}] with length {length}")
